"""Counts of which the beginning is not known let nobody in until they are rebuilt, in memory and in Redis."""

import time

import pytest

from gateway_project.work.limits.checks import (
    DAY,
    MINUTE,
    MONTH,
    RESERVE,
    USE,
    Hold,
    LimitCheck,
    Settlement,
    window_begin,
)
from gateway_project.work.state.counters import Counters
from gateway_project.work.state.shared import LocalState
from tests.gateway_project.work.conftest import needs_redis, redis_state
from tests.support.limits.asking import MIDNIGHT, Standstill, admitted, ask, quota, rebuilt, tokens_of


@pytest.mark.parametrize("kind", ["n", RESERVE])
def test_a_count_of_which_the_beginning_is_unknown_lets_nobody_in_until_it_is_rebuilt(state, kind):
    check = quota(10, time.time(), kind=kind)
    first, _ = ask(state, check)
    assert [(lost.check, lost.begin) for lost in first.lost] == [(check, window_begin(MONTH, time.time()))]
    assert time.time() - 5 < first.lost[0].until <= time.time() + 1
    assert ask(state, check)[0].lost[0].until == pytest.approx(first.lost[0].until, abs=0.01)
    state.rebuild([(first.lost[0], 8)])
    state.rebuild([(first.lost[0], 8)])
    assert [admitted(state, check) for _ in range(3)] == [True, True, False]


def test_so_it_is_with_the_counts_of_candidates(state):
    check = quota(10, time.time())
    first, _ = ask(state, candidate_checks=[[check]])
    assert ([lost.check for lost in first.lost], first.holds) == ([check], [])
    state.rebuild([(first.lost[0], 9)])
    assert [admitted(state, candidate_checks=[[check]]) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(("before", "values"), [(3.0, True), (2.0, True), (1.0, False), (0.0, False)])
def test_a_limit_that_was_set_just_before_its_window_is_not_known_to_all_when_it_begins(before, values):
    clock = Standstill()
    state = LocalState(cache_bytes=0, clock=clock)
    clock.at = MIDNIGHT + DAY + 5.0
    check = LimitCheck("quota", 10, DAY, since=MIDNIGHT + DAY - before)
    assert ask(state, check)[0].is_rejected != values


@pytest.mark.long
def test_a_window_that_begins_under_our_eyes_needs_no_rebuilding(state):
    check = LimitCheck("quota", 2, 1, since=1.0)
    deadline = time.monotonic() + 10
    while ask(state, check)[0].lost:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(1.0 - time.time() % 1 + 0.02)
    assert [admitted(state, check) for _ in range(3)] == [True, True, False]


@pytest.mark.servers
@needs_redis
def test_a_count_that_is_lost_while_a_request_runs_gets_it_from_the_log_or_at_its_end_and_never_twice():
    state = redis_state()
    checks = [quota(10, 1.0), quota(100, 1.0, "tokens", RESERVE)]
    state.rebuild([(lost, 0) for lost in ask(state, *checks)[0].lost])
    endings = [ask(state, *checks)[1] for _ in range(3)]
    for name in state._client._client.scan_iter(f"{state._prefix}:*"):
        state._client._client.delete(name)
    endings[0](1, 20)  # nothing counts yet: the log will tell it
    state._renewed = 0
    state.renew_holds()
    lost = ask(state, *checks)[0].lost
    endings[1](1, 20)
    state.rebuild([(lost[0], 5), (lost[1], 30)])
    endings[2](1, 20)
    statuses = ask(state, *checks)[0].statuses
    assert [status.usage for status in statuses] == [5 + 2 + 1, 30 + 40 + 1]


@pytest.mark.parametrize("kind", ["n", RESERVE])
def test_a_limit_that_was_set_anew_does_not_go_on_from_where_the_old_one_was(state, kind):
    before, now = time.time() - 60, time.time()
    old = quota(10, before, kind=kind, set_at=before)
    rebuilt(state, old, used=3)
    _, settle = ask(state, old)
    settle(1)
    assert state.used_amounts([old]) == [4]
    new = quota(10, now, kind=kind, set_at=now)
    assert state.used_amounts([new]) == [None]
    (lost,) = ask(state, new)[0].lost
    assert lost.until >= now
    # A process that has not heard of it yet neither brings the old count back nor ends the waiting.
    (observations,) = ask(state, old)[0].lost
    assert (observations.begin, observations.until) == (lost.begin, lost.until)
    assert state.still_lost([lost]) == [lost]
    state.rebuild([(lost._replace(until=before), 5)])
    assert state.used_amounts([new]) == [None]
    state.rebuild([(lost, 9)])
    assert state.still_lost([lost]) == []
    assert state.used_amounts([new]) == [9]
    assert [admitted(state, new) for _ in range(2)] == [True, False]


def test_the_log_and_the_limits_divide_requests_by_the_moment_of_their_end(state):
    checks = quota(100, time.time()), quota(1000, time.time(), "tokens", RESERVE)
    lost = ask(state, *checks)[0].lost
    until, begin = lost[0].until, lost[0].begin
    for ended in (until - 1, until + 1):  # requests that began before these limits were known, and hold nothing
        holds = [Hold(check, 0, begin) for check in checks]
        state.settle(Settlement("late", holds, [1, 20], ended))
    state.rebuild([(lost[0], 7), (lost[1], 70)])
    assert state.used_amounts(checks) == [8, 90]
    state.settle(Settlement("later", [Hold(check, 0, begin) for check in checks], [1, 20], until + 2))
    assert state.used_amounts(checks) == [9, 110]


def test_a_request_that_ended_before_a_count_that_was_rebuilt_already_counts_at_its_end(state):
    """A clock that was set back says so of every request: the log was read before any of them ended."""
    checks = quota(100, time.time()), quota(1000, time.time(), "tokens", RESERVE)
    rebuilt(state, *checks, used=0)
    admission, _ = ask(state, *checks, token="t")
    state.settle(Settlement("t", admission.holds, [1, 20], ended=time.time() - 600))
    assert state.used_amounts(checks) == [1, 20]


def test_what_is_admitted_while_a_count_is_lost_counts_once_whenever_it_ends(state):
    now = time.time()
    checks = quota(4, now, set_at=now), quota(1000, now, "tokens", RESERVE, set_at=now)
    lost = ask(state, *checks)[0].lost
    state.begin_storing("k", b"value", 60, "")()
    kept = {"accept_lost": True}
    early, late, over = (ask(state, *checks, token=name, **kept)[0] for name in ("early", "late", "over"))
    cached, _ = ask(state, *checks, token="cached", key="k", read=True, **kept)
    assert ask(state, *checks, token="full", **kept)[0].refused.check == checks[0]
    assert (cached.value, len(cached.holds)) == (b"value", 1), "its end says whether the log will tell it"
    state.settle(Settlement("early", early.holds, [1, 20], lost[0].until - 1))
    state.settle(Settlement("cached", cached.holds, [1], lost[0].until - 1))
    state.settle(Settlement("late", late.holds, [1, 20], lost[0].until + 1))
    state.rebuild([(lost[0], 2), (lost[1], 20)])  # the log has the two that ended before
    state.settle(Settlement("over", over.holds, [1, 20], lost[0].until - 1))
    assert state.used_amounts(checks) == [4, 60]


@pytest.mark.parametrize("since", [0.0, 1.0], ids=["a minute", "a quota"])
def test_a_request_that_is_taken_out_of_its_count_leaves_room_for_another(state, since):
    check = LimitCheck("requests", 2, MONTH if since else 3600, since=since)
    rebuilt(state, *[check] if since else [])
    first = ask(state, check)[0]
    assert admitted(state, check)
    assert not admitted(state, check)
    begin = window_begin(check.window_seconds, first.at)
    state.settle(Settlement("", [Hold(check, 1, begin, first.at)], [0]))
    assert [admitted(state, check) for _ in range(2)] == [True, False]


def test_a_clock_that_jumps_a_day_ahead_and_back_finds_the_counts_of_today():
    clock = Standstill()
    state = LocalState(cache_bytes=0, clock=clock)
    clock.at += DAY
    check, tokens = LimitCheck("day", 2, DAY, since=1.0), LimitCheck("tokens", 100, DAY, RESERVE, 60, 60, since=1.0)
    assert not ask(state, check, tokens)[0].is_rejected
    clock.at += DAY
    assert [admitted(state, check) for _ in range(3)] == [True, True, False]
    assert admitted(state, tokens)
    clock.at -= DAY
    assert not admitted(state, tokens), "what is reserved is reserved"
    assert [admitted(state, check) for _ in range(2)] == [True, False]


def test_what_was_reserved_gives_nothing_back_to_a_count_that_was_begun_anew():
    clock = Standstill()
    state = LocalState(cache_bytes=0, clock=clock)
    clock.at += DAY
    tokens = LimitCheck("tokens", 100, DAY, RESERVE, 60, 60, since=1.0)
    _, settle = ask(state, tokens)
    clock.at += 2 * DAY
    state.tidy()
    clock.at -= 2 * DAY
    rebuilt(state, tokens, used=0)
    settle(10)
    assert state.used_amounts([tokens])[0] == 10


def test_amounts_beyond_all_counting_fill_a_limit_and_do_no_harm(state):
    from gateway_project.work.limits.checks import MAX_AMOUNT

    check = tokens_of(MAX_AMOUNT, 10**25)
    first, settle = ask(state, check._replace(minimum=1))
    assert (first.holds[0].take, first.statuses[0].remaining) == (MAX_AMOUNT, 0)
    settle(MAX_AMOUNT)
    assert not admitted(state, check)
    _, settle = ask(state, tokens_of(MAX_AMOUNT, 0, minimum=0))
    state.settle(Settlement("more", first.holds, [MAX_AMOUNT]))
    assert state.used_amounts([check])[0] >= MAX_AMOUNT
    assert not admitted(state, tokens_of(MAX_AMOUNT, 1))


def test_what_a_process_counted_in_windows_that_are_over_it_lets_go():
    """However many keys have been limited, only those of the present windows take memory."""
    counters, begun = Counters(share_of=2), window_begin(MONTH, time.time())
    for number in range(1000):
        now = begun + number
        checks = [
            LimitCheck(f"minute {number}", 5, MINUTE),
            LimitCheck(f"day {number}", 5, DAY, RESERVE, since=1.0),
            LimitCheck("uses", 0, 5, USE, member=str(number)),
            LimitCheck(f"concurrent {number}", 5, kind="l"),
        ]
        admission = counters.check(checks, "t", now, ignore_lost=True)
        counters.take(admission, checks, "t", 2, now)
        counters.redis_counts.note(counters.statuses(checks, now), now)
        counters.settle(Settlement("t", admission.holds, [1] * len(admission.holds)))
    stored = sizes(counters)
    assert min(stored["counts"], stored["redis_counts"]) == 2000
    counters.tidy(begun + 1000 + 130)
    assert sizes(counters) == {"counts": 1000, "redis_counts": 1000, "leases": 0}
    counters.tidy(begun + 2 * DAY)
    assert sizes(counters) == {"counts": 0, "redis_counts": 0, "leases": 0}


def sizes(counters):
    return {
        "counts": len(counters._counts),
        "redis_counts": len(counters.redis_counts),
        "leases": len(counters._leases),
    }


def test_a_window_that_is_not_over_is_kept_when_a_process_tidies_up():
    state = LocalState(cache_bytes=0)
    day = LimitCheck("day", 2, DAY)
    if time.time() % DAY > DAY - 10:
        time.sleep(11)
    assert [admitted(state, day) for _ in range(2)] == [True, True]
    state.tidy()
    assert not admitted(state, day)
