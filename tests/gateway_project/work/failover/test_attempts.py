"""The steps of one sending to a provider, as its log entry has them: name, begin and length in milliseconds."""

from types import SimpleNamespace

import pytest

from gateway_project.work.bill import Bill
from gateway_project.work.exchange import Attempt
from gateway_project.work.failover.attempts import STEPS, logged_attempts
from gateway_project.work.snapshot.records import Snapshot, Target
from providers.pricing.prices import NOT_KNOWN
from providers.transport.calls import AttemptTimes
from tests.support.random_world import exchange_of
from tests.support.snapshot_records import provider

BEGUN, RECEIVED = 100.5, 100.0  # when the sending began, and when the request came


@pytest.fixture
def steps():
    """The steps that an entry has of a sending with these times."""

    def logged(*times):
        exchange = exchange_of({}, b"{}", SimpleNamespace(total_seconds=30))
        exchange.started = RECEIVED
        attempt = Attempt(Target(provider(1, "m"), "m"), BEGUN, 102.0, cost=NOT_KNOWN, times=AttemptTimes(*times))
        exchange.attempts.sendings.append(attempt)
        (row,) = logged_attempts(exchange, Bill(), Snapshot())
        return [(name, round(begin), round(length)) for name, begin, length in row.stages]

    return logged


def test_a_new_connection_with_tls_has_all_five(steps):
    rows = steps(100.5001, 100.51, 100.53, 100.63, 100.73, 101.03)
    assert rows == [
        ("connect", 500, 10), ("tls", 510, 20), ("first_byte", 530, 100), ("first_token", 630, 100),
        ("last_token", 730, 300),
    ]  # fmt: skip
    assert [name for name, _, _ in rows] == list(STEPS)


def test_one_without_tls_has_no_step_for_it(steps):
    assert steps(100.5001, 100.51, 0.0, 100.63, 100.73, 101.03) == [
        ("connect", 500, 10), ("first_byte", 510, 120), ("first_token", 630, 100), ("last_token", 730, 300),
    ]  # fmt: skip


def test_a_kept_connection_has_neither_step(steps):
    """`connected` is then that of an earlier request."""
    assert steps(0.0, 99.0, 0.0, 100.63, 0.0, 100.73) == [("first_byte", 500, 130), ("last_token", 630, 100)]


def test_one_that_broke_has_the_steps_that_it_came_to(steps):
    assert steps(100.5001, 100.51, 100.53) == [("connect", 500, 10), ("tls", 510, 20)]


def test_a_first_text_that_is_noticed_after_the_last_piece_takes_no_time(steps):
    assert steps(0.0, 0.0, 0.0, 100.6, 100.9, 100.8) == [
        ("first_byte", 500, 100), ("first_token", 600, 300), ("last_token", 900, 0),
    ]  # fmt: skip
