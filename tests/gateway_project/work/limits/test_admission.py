"""What is reserved, leased and chosen, held to the same promises in memory and in Redis."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway_project.work.limits.checks import MINUTE, LimitCheck, Settlement
from tests.support.limits.asking import HOUR, admitted, ask, concurrent, tokens_of, use

# -- Reservations --------------------------------------------------------------------------------------------


def test_what_is_reserved_is_not_there_for_others_and_what_was_not_needed_is_again(state):
    first, settle = ask(state, tokens_of(100, 60))
    assert first.statuses[0].remaining == 40
    assert not admitted(state, tokens_of(100, 60))
    settle(10)
    second, settle = ask(state, tokens_of(100, 60))
    assert second.statuses[0].remaining == 30
    settle(60)
    assert [admitted(state, tokens_of(100, 30)), admitted(state, tokens_of(100, 1))] == [True, False]


def test_more_than_was_reserved_counts_too(state):
    _, settle = ask(state, tokens_of(100, 10))
    settle(250)
    admission, _ = ask(state, tokens_of(100, 1))
    assert (admission.refused.remaining, admission.refused.check.name) == (-150, "tokens")
    assert 0 < admission.refused.reset_seconds <= HOUR


def test_a_request_without_a_bound_takes_what_there_is(state):
    unbounded = tokens_of(100, 1000, minimum=5)
    first, settle = ask(state, unbounded)
    assert (first.statuses[0].remaining, first.holds[0].take) == (0, 100)
    assert not admitted(state, unbounded)
    settle(30)
    second, settle = ask(state, unbounded)
    assert second.holds[0].take == 70
    settle(66)
    assert not admitted(state, unbounded)
    assert admitted(state, tokens_of(100, 4))


def test_who_reserves_nothing_is_admitted_until_all_is_used_up_and_what_it_used_counts(state):
    """Where no price is known nothing can be reserved of a limit on cost."""
    free = tokens_of(100, 0)
    first, settle = ask(state, free)
    assert (first.statuses[0].remaining, first.holds[0].take) == (100, 0)
    settle(40)
    _, give_back = ask(state, tokens_of(100, 60))
    assert admitted(state, free)
    give_back(60)
    assert ask(state, tokens_of(100, 0))[0].refused.remaining == 0


def test_a_stored_answer_reserves_nothing_and_needs_no_room(state):
    state.begin_storing("k", b"value", 60, "")()
    running, _ = ask(state, tokens_of(100, 100))
    hit, _ = ask(state, tokens_of(100, 50), key="k", read=True)
    assert (hit.value, hit.holds, hit.refused) == (b"value", [], None)
    assert running.holds


def test_a_stored_answer_is_refused_once_the_quota_is_used_up(state):
    state.begin_storing("k", b"value", 60, "")()
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
    assert state.peek("k") == (None, False)


def test_reservations_are_exact_when_fifty_threads_press(state):
    start = threading.Barrier(50)
    most = []

    def press(number):
        start.wait()
        for _ in range(6):
            admission, settle = ask(state, tokens_of(1000, 100))
            if admission.refused is None:
                most.append(admission.statuses[0].remaining)
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
    assert (refused.remaining, refused.reset_seconds) == (0, 1)
    ends[1]()
    assert admitted(state, concurrent(3))
    assert not admitted(state, concurrent(3))


def test_who_waits_for_anothers_answer_runs_too(state):
    assert admitted(state, concurrent(2), key="k", read=True)
    assert admitted(state, concurrent(2), key="k", read=True)
    assert not admitted(state, concurrent(2), key="k", read=True)


def test_a_stored_answer_does_not_stay_among_those_that_run(state):
    state.begin_storing("k", b"value", 60, "")()
    for _ in range(3):
        hit, _ = ask(state, concurrent(1), use("ann", 9), key="k", read=True)
        assert (hit.value, hit.holds) == (b"value", [])
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


def test_a_refusal_tells_what_is_left_of_each(state):
    requests = LimitCheck("requests", 9, MINUTE)
    assert ask(state, requests, tokens_of(100, 12), concurrent(3))[0].refused is None
    refused = ask(state, requests, tokens_of(100, 95), concurrent(3))[0]
    assert (refused.refused.check.name, refused.refused.remaining) == ("tokens", 88)
    assert [status.remaining for status in refused.statuses] == [8, 88, 2]
    alone = [state.admit([requests, LimitCheck("few", 1, MINUTE)], "k", "", read=False) for _ in range(2)][1]
    assert (alone.refused.check.name, [status.remaining for status in alone.statuses]) == ("few", [7, 0])
    none = ask(state, requests, candidate_checks=[[tokens_of(100, 90)]])[0]
    assert (none.refused.remaining, [status.remaining for status in none.statuses]) == (88, [7])


# -- Candidates ----------------------------------------------------------------------------------------------


def test_the_first_candidate_with_room_is_taken_from(state):
    one, other = LimitCheck("one", 1, HOUR), LimitCheck("other", 2, HOUR)
    candidate_checks = [[one], [other]]
    chosen = [ask(state, candidate_checks=candidate_checks)[0] for _ in range(3)]
    assert [admission.choice for admission in chosen] == [0, 1, 1]
    assert [[full.check.name for full in admission.full] for admission in chosen] == [[], ["one"], ["one"]]
    refused = ask(state, candidate_checks=candidate_checks)[0].refused
    assert refused.check in (one, other)
    assert ask(state, candidate_checks=[[one], [other], []])[0].choice == 2


def test_a_stored_answer_asks_no_candidate(state):
    state.begin_storing("k", b"value", 60, "")()
    hit, _ = ask(state, key="k", read=True, candidate_checks=[[LimitCheck("one", 0, HOUR)]])
    assert (hit.value, hit.refused) == (b"value", None)


def test_what_the_caller_lacks_is_taken_from_no_candidate(state):
    assert (
        ask(state, tokens_of(5, 6), candidate_checks=[[LimitCheck("one", 1, HOUR)]])[0].refused.check.name == "tokens"
    )
    assert admitted(state, candidate_checks=[[LimitCheck("one", 1, HOUR)]])


@pytest.mark.long
def test_a_count_is_one_whatever_it_is_asked_together_with(state):
    """Requests a minute alone are asked by a script of their own."""
    check = LimitCheck("both", 4, MINUTE)
    if time.time() % 60 > 55:
        time.sleep(61 - time.time() % 60)
    together = [[check], [check, concurrent(9)], [check, use("ann", 0)], [concurrent(9), check], [check]]
    assert [admitted(state, *checks) for checks in together] == [True] * 4 + [False]
