"""What is reserved, leased and chosen, held to the same promises in memory and in Redis."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from gateway_project.work.limits import (
    DAY,
    LEASE,
    MINUTE,
    MONTH,
    RESERVE,
    USE,
    LimitCheck,
    Settlement,
    window_begin,
    window_end,
)
from tests.gateway_project.work.conftest import needs_redis, redis_state

HOUR = 3600
_tokens = itertools.count(1)


def tokens_of(amount, take, *, least=None, name="tokens"):
    return LimitCheck(name, amount, HOUR, RESERVE, take, take if least is None else least)


def concurrent(amount, name="concurrent"):
    return LimitCheck(name, amount, kind=LEASE)


def use(member, amount, life=60):
    return LimitCheck("uses", amount, life, USE, member=member)


def ask(state, *checks, **options):
    """An admission under a token of its own, and the settlement that settles it."""
    token = options.pop("token", None) or f"t{next(_tokens)}"
    admission = state.admit(checks, options.pop("key", ""), token, **options)
    return admission, lambda *amounts: state.settle(
        Settlement(token, admission.holds, amounts or [0] * len(admission.holds))
    )


def admitted(state, *checks, **options):
    return ask(state, *checks, **options)[0].refused is None


# -- Reservations --------------------------------------------------------------------------------------------


def test_what_is_reserved_is_not_there_for_others_and_what_was_not_needed_is_again(state):
    first, settle = ask(state, tokens_of(100, 60))
    assert first.standing[0].left == 40
    assert not admitted(state, tokens_of(100, 60))
    settle(10)
    second, settle = ask(state, tokens_of(100, 60))
    assert second.standing[0].left == 30
    settle(60)
    assert [admitted(state, tokens_of(100, 30)), admitted(state, tokens_of(100, 1))] == [True, False]


def test_more_than_was_reserved_counts_too(state):
    _, settle = ask(state, tokens_of(100, 10))
    settle(250)
    admission, _ = ask(state, tokens_of(100, 1))
    assert (admission.refused.left, admission.refused.check.name) == (0, "tokens")
    assert 0 < admission.refused.reset_seconds <= HOUR


def test_a_request_without_a_bound_takes_what_there_is(state):
    unbounded = tokens_of(100, 1000, least=5)
    first, settle = ask(state, unbounded)
    assert (first.standing[0].left, first.holds[0].take) == (0, 100)
    assert not admitted(state, unbounded)
    settle(30)
    second, settle = ask(state, unbounded)
    assert second.holds[0].take == 70
    settle(66)
    assert not admitted(state, unbounded)
    assert admitted(state, tokens_of(100, 4))


def test_a_stored_answer_reserves_nothing_and_needs_no_room(state):
    state.store("k", b"value", 60, "")
    running, _ = ask(state, tokens_of(100, 100))
    hit, _ = ask(state, tokens_of(100, 50), key="k", read=True)
    assert (hit.value, hit.holds, hit.refused) == (b"value", [], None)
    assert running.holds


def test_a_stored_answer_is_refused_once_the_quota_is_used_up(state):
    state.store("k", b"value", 60, "")
    ask(state, tokens_of(100, 100))[1](100)
    assert ask(state, tokens_of(100, 1), key="k", read=True)[0].refused


def test_who_waits_for_anothers_answer_reserves_nothing_until_it_asks_itself(state):
    leader, settle = ask(state, tokens_of(100, 80), key="k", token="leader", read=True)
    waiting, _ = ask(state, tokens_of(100, 80), key="k", token="waits", read=True)
    assert (leader.leads, waiting.leads, waiting.refused, waiting.holds) == (True, False, None, [])
    state.release("k", "leader", Settlement("leader", leader.holds, [0]))
    taking_over, _ = ask(state, tokens_of(100, 80), key="k", token="waits", read=True)
    assert taking_over.leads
    assert taking_over.holds[0].take == 80
    assert settle


def test_a_refused_request_reserves_and_holds_nothing_and_leads_no_flight(state):
    for checks in ((concurrent(1), tokens_of(10, 11)), (tokens_of(10, 10), LimitCheck("none left", 0, HOUR))):
        assert ask(state, *checks, key="k", read=True)[0].refused
    assert admitted(state, concurrent(1), tokens_of(10, 10))
    assert state.look("k") == (None, False)


def test_reservations_are_exact_when_fifty_threads_press(state):
    start = threading.Barrier(50)
    most = []

    def press(number):
        start.wait()
        for _ in range(6):
            admission, settle = ask(state, tokens_of(1000, 100))
            if admission.refused is None:
                most.append(admission.standing[0].left)
                settle(50)

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(press, range(50)))
    # Each used 50: reservations of 100 are let in as long as 100 are left, however they came together.
    assert min(most) >= 0
    assert not admitted(state, tokens_of(1000, 100))
    assert admitted(state, tokens_of(1000, 50))


# -- Leases --------------------------------------------------------------------------------------------------


def test_so_many_run_at_once_and_no_more(state):
    ends = []
    for _ in range(3):
        admission, end = ask(state, concurrent(3))
        assert admission.refused is None
        ends.append(end)
    refused = ask(state, concurrent(3))[0].refused
    assert (refused.left, refused.reset_seconds) == (0, 1)
    ends[1]()
    assert admitted(state, concurrent(3))
    assert not admitted(state, concurrent(3))


def test_who_waits_for_anothers_answer_runs_too(state):
    assert admitted(state, concurrent(2), key="k", read=True)
    assert admitted(state, concurrent(2), key="k", read=True)
    assert not admitted(state, concurrent(2), key="k", read=True)


def test_a_stored_answer_does_not_stay_among_those_that_run(state):
    state.store("k", b"value", 60, "")
    for _ in range(3):
        assert ask(state, concurrent(1), key="k", read=True)[0].value == b"value"
    assert admitted(state, concurrent(1))
    assert not admitted(state, concurrent(1), key="k", read=True)


def test_never_more_run_than_may_when_fifty_threads_press(state):
    running, most, served = 0, 0, 0
    lock, start = threading.Lock(), threading.Barrier(50)

    def press(number):
        nonlocal running, most, served
        start.wait()
        for _ in range(6):
            admission, end = ask(state, concurrent(7))
            if admission.refused is None:
                with lock:
                    running += 1
                    most, served = max(most, running), served + 1
                time.sleep(0.002)
                with lock:
                    running -= 1
                end()

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(press, range(50)))
    assert most <= 7 <= served
    assert [admitted(state, concurrent(7)) for _ in range(8)] == [True] * 7 + [False]


# -- Active uses ---------------------------------------------------------------------------------------------


def test_uses_are_counted_by_member_and_not_by_request(state):
    for _ in range(3):
        assert admitted(state, use("ann", 2))
    assert admitted(state, use("bob", 2))
    assert ask(state, use("eve", 2))[0].refused.check.kind == USE
    assert admitted(state, use("bob", 2))
    assert state.uses("uses") == 2


def test_a_use_lives_on_after_its_last_request_and_then_lapses(state):
    endings = [ask(state, use("ann", 1, life=1))[1] for _ in range(2)]
    endings[0]()
    time.sleep(1.2)
    assert not admitted(state, use("bob", 1, life=1)), "the other request is still in flight"
    endings[1]()
    assert not admitted(state, use("bob", 1, life=1))
    assert 0 < ask(state, use("bob", 1, life=1))[0].refused.reset_seconds <= 2
    time.sleep(1.2)
    assert state.uses("uses") == 0
    assert admitted(state, use("bob", 1, life=1))


def test_a_stored_answer_is_a_use_that_lives_from_now_on(state):
    state.store("k", b"value", 60, "")
    assert ask(state, use("ann", 1, life=1), key="k", read=True)[0].value
    assert not admitted(state, use("bob", 1, life=1))
    time.sleep(1.2)
    assert admitted(state, use("bob", 1, life=1))


def test_an_amount_of_0_counts_uses_without_a_limit(state):
    for number in range(20):
        assert admitted(state, use(f"user {number}", 0))
    assert state.uses("uses") == 20


def test_never_more_members_than_uses_when_fifty_threads_press(state):
    start = threading.Barrier(50)

    def press(number):
        start.wait()
        return [f"user {number % 17}" for _ in range(6) if admitted(state, use(f"user {number % 17}", 9))]

    with ThreadPoolExecutor(50) as pool:
        let_in = {member for members in pool.map(press, range(50)) for member in members}
    assert len(let_in) == state.uses("uses") == 9


# -- Candidates ----------------------------------------------------------------------------------------------


def test_the_first_candidate_with_room_is_taken_from(state):
    one, other = LimitCheck("one", 1, HOUR), LimitCheck("other", 2, HOUR)
    choices = [[one], [other]]
    chosen = [ask(state, choices=choices)[0] for _ in range(3)]
    assert [admission.choice for admission in chosen] == [0, 1, 1]
    assert [[full.check.name for full in admission.full] for admission in chosen] == [[], ["one"], ["one"]]
    refused = ask(state, choices=choices)[0].refused
    assert refused.check in (one, other)
    assert ask(state, choices=[[one], [other], []])[0].choice == 2


def test_a_stored_answer_asks_no_candidate(state):
    state.store("k", b"value", 60, "")
    hit, _ = ask(state, key="k", read=True, choices=[[LimitCheck("one", 0, HOUR)]])
    assert (hit.value, hit.refused) == (b"value", None)


def test_what_the_caller_lacks_is_taken_from_no_candidate(state):
    assert ask(state, tokens_of(5, 6), choices=[[LimitCheck("one", 1, HOUR)]])[0].refused.check.name == "tokens"
    assert admitted(state, choices=[[LimitCheck("one", 1, HOUR)]])


# -- Counts that were lost -----------------------------------------------------------------------------------


def quota(amount, since, name="quota", kind="n"):
    return LimitCheck(name, amount, MONTH, kind, since=since)


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


def test_a_window_that_begins_under_our_eyes_needs_no_rebuilding(state):
    check = LimitCheck("quota", 2, 1, since=1.0)
    deadline = time.monotonic() + 10
    while ask(state, check)[0].lost:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(1.0 - time.time() % 1 + 0.02)
    assert [admitted(state, check) for _ in range(3)] == [True, True, False]


# -- Calendar ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "at", "begin", "end"),
    [
        (MINUTE, "2026-03-29T01:59:59.9", "2026-03-29T01:59:00", "2026-03-29T02:00:00"),
        (DAY, "2026-02-28T23:59:59.9", "2026-02-28T00:00:00", "2026-03-01T00:00:00"),
        (MONTH, "2026-02-28T23:59:59.9", "2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        (MONTH, "2028-02-29T12:00:00", "2028-02-01T00:00:00", "2028-03-01T00:00:00"),
        (MONTH, "2026-12-31T23:59:59.9", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        (MONTH, "2027-01-01T00:00:00", "2027-01-01T00:00:00", "2027-02-01T00:00:00"),
    ],
)
def test_windows_are_those_of_the_calendar_in_utc(window, at, begin, end):
    found = window_begin(window, datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp())
    told = [datetime.fromtimestamp(moment, UTC).replace(tzinfo=None) for moment in (found, window_end(window, found))]
    assert [moment.isoformat() for moment in told] == [begin, end]


@pytest.mark.servers
@needs_redis
def test_redis_has_the_same_calendar():
    """The script's months, for every day of forty years."""
    from gateway_project.work.redis_scripts import ADMIT

    state = redis_state()
    month = ADMIT[ADMIT.index("local function month") : ADMIT.index("local function begin_of")]
    script = f"{month} local out = {{}} for day = 0, 14609 do out[day + 1] = month(day * 86400 + 86399) end return out"
    months = state._command("EVAL", script, 0)
    assert months == [window_begin(MONTH, day * DAY + DAY - 1) for day in range(14610)]


# -- Processes that die, and clocks --------------------------------------------------------------------------


@pytest.mark.servers
@needs_redis
class TestRedis:
    def late(self, state, *names):
        """As if the process had not been heard of for longer than a lease lives."""
        client = state._client
        for name in names:
            key = state._name("limit", name)
            for member in client.zrange(key, 0, -1):
                client.zadd(key, {member: 1})

    def begin(self):
        return window_begin(HOUR, time.time())

    def test_what_a_dead_process_held_is_free_again(self):
        state = redis_state()
        checks = (tokens_of(100, 70), concurrent(1), use("ann", 1))
        assert admitted(state, *checks)
        assert not admitted(state, tokens_of(100, 70))
        assert not admitted(state, concurrent(1))
        self.late(state, f"tokens:{self.begin()}:held", "concurrent", "uses", "uses:ann")
        admission, settle = ask(state, tokens_of(100, 70), concurrent(1), use("bob", 1))
        assert admission.refused is None
        settle(70, 0, 0)
        assert admitted(state, tokens_of(100, 30), concurrent(1), use("bob", 1))

    def test_a_process_that_is_alive_renews_what_it_holds_and_takes_again_what_was_lost(self):
        state = redis_state()
        admission, settle = ask(state, tokens_of(100, 70), concurrent(1), use("ann", 1))
        assert admission.refused is None
        for name in state._client.scan_iter(f"{state._prefix}:*"):
            state._client.delete(name)
        state._renewed = 0
        state.renew_holds()
        other = redis_state(prefix=state._prefix)
        for check in (tokens_of(100, 31), concurrent(1), use("bob", 1)):
            assert not admitted(other, check), check.name
        settle(90, 0, 0)
        assert admitted(other, tokens_of(100, 10), concurrent(1), use("ann", 1))
        assert not admitted(other, tokens_of(100, 1))

    def test_who_settles_after_its_lease_lapsed_takes_nothing_from_others(self):
        state = redis_state()
        first, settle = ask(state, tokens_of(100, 70))
        self.late(state, f"tokens:{self.begin()}:held")
        second, _ = ask(state, tokens_of(100, 60))
        assert (first.refused, second.refused) == (None, None)
        settle(20)
        assert admitted(state, tokens_of(100, 20))
        assert not admitted(state, tokens_of(100, 1))

    def test_nothing_that_is_held_stays_in_redis_for_ever(self):
        state = redis_state()
        assert admitted(state, tokens_of(100, 70), concurrent(1), use("ann", 1), LimitCheck("n", 5, MINUTE))
        keys = list(state._client.scan_iter(f"{state._prefix}:*"))
        assert len(keys) == 7
        assert all(0 < state._client.ttl(key) <= HOUR + 60 for key in keys if b":peak:" not in key)
        assert all(0 < state._client.ttl(key) <= 3 * DAY for key in keys)

    def test_a_count_that_is_lost_while_a_request_runs_gets_it_from_the_log_or_at_its_end_and_never_twice(self):
        state = redis_state()
        checks = [quota(10, 1.0), quota(100, 1.0, "tokens", RESERVE)]
        state.rebuild([(lost, 0) for lost in ask(state, *checks)[0].lost])
        endings = [ask(state, *checks)[1] for _ in range(3)]
        for name in state._client.scan_iter(f"{state._prefix}:*"):
            state._client.delete(name)
        endings[0](1, 20)  # nothing counts yet: the log will tell it
        state._renewed = 0
        state.renew_holds()
        lost = ask(state, *checks)[0].lost
        endings[1](1, 20)
        state.rebuild([(lost[0], 5), (lost[1], 30)])
        endings[2](1, 20)
        standing = ask(state, *checks)[0].standing
        assert [stands.used for stands in standing] == [5 + 2 + 1, 30 + 40 + 1]


def test_the_most_uses_of_a_day_are_known_after_they_have_lapsed(state):
    today = window_begin(DAY, time.time())
    assert state.peaks("uses") == {}
    for member in ("ann", "bob", "eve"):
        ask(state, use(member, 0, life=1))[1]()
    most = max(state.peaks("uses").values())
    deadline = time.monotonic() + 10
    while state.uses("uses") and time.monotonic() < deadline:
        time.sleep(0.05)
    ask(state, use("ann", 0, life=1))
    assert most == max(state.peaks("uses").values()) == 3
    assert state.peaks("uses").keys() <= {today, today + DAY}


def test_a_count_is_one_whatever_it_is_asked_together_with(state):
    """Requests a minute alone are asked by a script of their own."""
    check = LimitCheck("both", 4, MINUTE)
    if time.time() % 60 > 55:
        time.sleep(61 - time.time() % 60)
    together = [[check], [check, concurrent(9)], [check, use("ann", 0)], [concurrent(9), check], [check]]
    assert [admitted(state, *checks) for checks in together] == [True] * 4 + [False]
