"""What all processes share keeps its promises, be it memory or Redis."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway_project.work.limits.checks import LimitCheck
from gateway_project.work.state import shared as states
from gateway_project.work.state.shared import LocalState

HOUR = 3600


def limit(amount, name="key 1", seconds=HOUR):
    return LimitCheck(name, amount, seconds)


def admits(state, *limits):
    return state.admit(limits, "k", "", read=False).refused is None


def ask(state, key="k", token="", read=True):
    return state.admit((), key, token, read=read)


def wait_for_window(seconds):
    """Return at the beginning of a calendar window, so that a test fits into it."""
    time.sleep(seconds - time.time() % seconds + 0.02)


def test_a_limit_is_reached_after_exactly_so_many_requests(state):
    assert [admits(state, limit(3)) for _ in range(5)] == [True, True, True, False, False]


def test_what_is_left_counts_down_and_the_rest_of_the_window_is_told(state):
    statuses = [state.admit([limit(3)], "k", "", read=False).statuses[0] for _ in range(3)]
    assert [status.remaining for status in statuses] == [2, 1, 0]
    assert all(0 < status.reset_seconds <= HOUR for status in statuses)
    refused = state.admit([limit(3)], "k", "", read=False).refused
    assert (refused.remaining, refused.check) == (0, limit(3))
    assert 0 < refused.reset_seconds <= HOUR


def test_a_limit_is_exact_when_fifty_threads_press(state):
    start = threading.Barrier(50)

    def press(_):
        start.wait()
        return sum(admits(state, limit(333)) for _ in range(10))

    with ThreadPoolExecutor(50) as pool:
        assert sum(pool.map(press, range(50))) == 333


def test_a_refused_request_counts_nowhere(state):
    tight, wide = limit(1, "tight"), limit(3, "wide")
    assert admits(state, wide, tight)
    assert [admits(state, wide, tight) for _ in range(5)] == [False] * 5
    assert [admits(state, wide) for _ in range(3)] == [True, True, False]


def test_a_refused_request_leads_nothing_and_reads_nothing(state):
    state.begin_storing("k", b"value", 60, "")()
    admits(state, limit(1))
    admission = state.admit([limit(1)], "k", "t", read=True)
    assert (admission.value, admission.leads) == (None, False)
    assert state.peek("k") == (b"value", False)


def test_limits_of_others_are_their_own(state):
    assert admits(state, limit(1, "key 1"))
    assert admits(state, limit(1, "key 2"))
    assert not admits(state, limit(1, "key 1"))


@pytest.mark.long
def test_a_window_ends_and_the_next_begins_whole(state):
    for _ in range(2):
        wait_for_window(3)
        assert [admits(state, limit(2, seconds=3)) for _ in range(3)] == [True, True, False]


@pytest.mark.long
def test_an_answer_is_found_until_it_expires(state):
    state.begin_storing("k", b"\x00\xffvalue\n", 3, "")()
    assert ask(state).value == b"\x00\xffvalue\n"
    assert ask(state, read=False).value is None
    assert ask(state, key="other").value is None
    time.sleep(3.05)
    assert ask(state).value is None
    assert state.peek("k") == (None, False)


def test_a_new_answer_takes_the_place_of_the_old(state):
    for value in (b"old", b"new"):
        state.begin_storing("k", value, 60, "")()
    assert ask(state).value == b"new"


def test_what_is_forgotten_is_found_no_more(state):
    for key in "abc":
        state.begin_storing(key, b"value", 60, "")()
    assert state.forget_answers(["a", "c", "none"])
    assert [state.peek(key)[0] for key in "abc"] == [None, b"value", None]


def test_of_many_who_miss_at_once_one_leads(state):
    start = threading.Barrier(30)

    def miss(number):
        start.wait()
        return ask(state, token=f"t{number}").leads

    with ThreadPoolExecutor(30) as pool:
        assert sum(pool.map(miss, range(30))) == 1


def test_a_flight_ends_with_its_answer(state):
    assert ask(state, token="t1").leads
    assert state.peek("k") == (None, True)
    state.begin_storing("k", b"value", 60, "t1")()
    assert state.peek("k") == (b"value", False)
    result = ask(state, token="t2")
    assert (result.value, result.leads) == (b"value", False)


def test_a_flight_ends_without_an_answer_and_the_next_one_leads(state):
    assert ask(state, token="t1").leads
    assert not ask(state, token="t2").leads
    state.release("k", "t1")
    assert state.peek("k") == (None, False)
    assert ask(state, token="t2").leads


def test_only_its_leader_ends_a_flight(state):
    assert ask(state, token="t1").leads
    state.release("k", "t2")
    state.begin_storing("k", b"value", 60, "t2")()
    assert state.peek("k") == (b"value", True)


def test_who_refreshes_may_lead_although_there_is_an_answer(state):
    state.begin_storing("k", b"value", 60, "")()
    assert ask(state, token="t1", read=False).leads


def test_memory_holds_so_many_bytes_and_the_least_used_go_first():
    state = LocalState(cache_bytes=100)
    for key in "abcd":
        state.begin_storing(key, b"x" * 25, 60, "")()
    assert ask(state, "a").value
    state.begin_storing("e", b"x" * 25, 60, "")()
    assert [key for key in "abcde" if state.peek(key)[0]] == ["a", "c", "d", "e"]


def test_memory_refuses_what_is_larger_than_all_of_it():
    state = LocalState(cache_bytes=100)
    state.begin_storing("a", b"x" * 100, 60, "")()
    assert ask(state, "b", token="t").leads
    state.begin_storing("b", b"x" * 101, 60, "t")()
    assert (state.peek("a")[0], state.peek("b")) == (b"x" * 100, (None, False))


def test_memory_counts_right_when_answers_are_replaced_and_expire():
    state = LocalState(cache_bytes=100)
    for _ in range(10):
        state.begin_storing("a", b"x" * 60, 60, "")()
    state.begin_storing("b", b"x" * 40, 0, "")()
    assert state.peek("b")[0] is None
    state.begin_storing("c", b"x" * 40, 60, "")()
    assert state.peek("a")[0]
    assert state.peek("c")[0]


def test_memory_is_never_away_and_its_flights_do_not_lapse():
    state = LocalState(cache_bytes=100)
    assert ask(state, token="t").leads
    state.renew_flight("k", "t")
    state.probe()
    assert not state.degraded
    assert states.FLIGHT_SECONDS > 0
    assert state.peek("k") == (None, True)


@pytest.mark.parametrize(("amount", "share"), [(100, 25), (10, 2), (3, 1), (1, 1)])
def test_a_share_is_a_part_and_never_nothing(amount, share):
    state = LocalState(cache_bytes=0, share_of=4)
    assert sum(admits(state, limit(amount)) for _ in range(200)) == share
