"""Active uses, held to the same promises in memory and in Redis."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway_project.work.limits.checks import DAY, USE, window_begin
from tests.support.limits.asking import admitted, ask, use


def test_uses_are_counted_by_member_and_not_by_request(state):
    for _ in range(3):
        assert admitted(state, use("ann", 2))
    assert admitted(state, use("bob", 2))
    assert ask(state, use("eve", 2))[0].refused.check.kind == USE
    assert admitted(state, use("bob", 2))
    assert state.count_uses("uses") == 2


@pytest.mark.long
def test_a_use_lives_on_after_its_last_request_and_then_lapses(state):
    endings = [ask(state, use("ann", 1, life=1))[1] for _ in range(2)]
    endings[0]()
    time.sleep(1.2)
    assert not admitted(state, use("bob", 1, life=1)), "the other request is still in flight"
    endings[1]()
    assert not admitted(state, use("bob", 1, life=1))
    assert 0 < ask(state, use("bob", 1, life=1))[0].refused.reset_seconds <= 2
    time.sleep(1.2)
    assert state.count_uses("uses") == 0
    assert admitted(state, use("bob", 1, life=1))


@pytest.mark.long
def test_a_stored_answer_is_a_use_that_lives_from_now_on(state):
    state.begin_storing("k", b"value", 60, "")()
    assert ask(state, use("ann", 1, life=1), key="k", read=True)[0].value
    assert not admitted(state, use("bob", 1, life=1))
    time.sleep(1.2)
    assert admitted(state, use("bob", 1, life=1))


def test_an_amount_of_0_counts_uses_without_a_limit(state):
    for number in range(20):
        assert admitted(state, use(f"user {number}", 0))
    assert state.count_uses("uses") == 20


def test_never_more_members_than_uses_when_fifty_threads_press(state):
    start = threading.Barrier(50)

    def press(number):
        start.wait()
        return [f"user {number % 17}" for _ in range(6) if admitted(state, use(f"user {number % 17}", 9))]

    with ThreadPoolExecutor(50) as pool:
        let_in = {member for members in pool.map(press, range(50)) for member in members}
    assert len(let_in) == state.count_uses("uses") == 9


@pytest.mark.long
def test_the_most_uses_of_a_day_are_known_after_they_have_lapsed(state):
    today = window_begin(DAY, time.time())
    assert state.use_peaks("uses") == {}
    for member in ("ann", "bob", "eve"):
        ask(state, use(member, 0, life=1))[1]()
    most = max(state.use_peaks("uses").values())
    deadline = time.monotonic() + 10
    while state.count_uses("uses") and time.monotonic() < deadline:
        time.sleep(0.05)
    ask(state, use("ann", 0, life=1))
    assert most == max(state.use_peaks("uses").values()) == 3
    assert state.use_peaks("uses").keys() <= {today, today + DAY}
