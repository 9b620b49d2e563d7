"""Counts of which the beginning is not known let nobody in until they are rebuilt, in memory and in Redis."""

import time

import pytest

from gateway_project.work.limits import MONTH, RESERVE, LimitCheck, window_begin
from tests.gateway_project.work.asking import admitted, ask, quota
from tests.gateway_project.work.conftest import needs_redis, redis_state


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


@pytest.mark.servers
@needs_redis
def test_a_count_that_is_lost_while_a_request_runs_gets_it_from_the_log_or_at_its_end_and_never_twice():
    state = redis_state()
    checks = [quota(10, 1.0), quota(100, 1.0, "tokens", RESERVE)]
    state.rebuild([(lost, 0) for lost in ask(state, *checks)[0].lost])
    endings = [ask(state, *checks)[1] for _ in range(3)]
    for name in state._link._client.scan_iter(f"{state._prefix}:*"):
        state._link._client.delete(name)
    endings[0](1, 20)  # nothing counts yet: the log will tell it
    state._renewed = 0
    state.renew_holds()
    lost = ask(state, *checks)[0].lost
    endings[1](1, 20)
    state.rebuild([(lost[0], 5), (lost[1], 30)])
    endings[2](1, 20)
    standing = ask(state, *checks)[0].standing
    assert [stands.used for stands in standing] == [5 + 2 + 1, 30 + 40 + 1]
