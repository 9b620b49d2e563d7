"""Retries are a share of the requests."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway_project.work.routing.retry_budget import MAX_SAVED, WHOLE, RetryBudget

pytestmark = pytest.mark.embedded


def test_ten_requests_earn_a_retry():
    budget = RetryBudget(10)
    takes = []
    for _ in range(100):
        budget.note_request()
        takes.append(budget.take())
    assert takes.count(True) == 10
    assert not any(takes[:9])


def test_a_share_of_zero_allows_none():
    budget = RetryBudget(0)
    for _ in range(1000):
        budget.note_request()
    assert not budget.take()


def test_what_is_saved_is_bounded():
    budget = RetryBudget(10)
    for _ in range(100_000):
        budget.note_request()
    assert [budget.take() for _ in range(100)].count(True) == MAX_SAVED / WHOLE


def test_threads_take_no_more_than_there_is():
    budget = RetryBudget(10)
    for _ in range(80):
        budget.note_request()
    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(lambda _: budget.take(), range(2000))) == 8
