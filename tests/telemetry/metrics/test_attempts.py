"""What became of attempts at providers, added up over threads and processes."""

import time

import orjson
import pytest

from telemetry.metrics import attempts
from telemetry.metrics.attempts import LATEST, AttemptBook, AttemptFailure, AttemptStart, AttemptSuccess, Subject
from telemetry.metrics.counters import Metrics
from telemetry.metrics.slots import Slots
from telemetry.metrics.sums import OTHER
from tests.support.pace import slowness

FAST = Subject(1, "first", "fast")


def failed(at, message="it is down", subject=FAST, **options):
    return AttemptFailure(subject, at, "ProviderError", message, **options)


def book(*events):
    new = AttemptBook()
    for event in events:
        new.note(event)
    return new


def test_attempts_and_failures_are_counted_and_the_last_error_is_kept():
    events = [AttemptStart(FAST)] * 6 + [
        AttemptSuccess(FAST, 1.0),
        *(failed(float(at), f"error {at}") for at in range(2, 7)),
    ]
    (record,) = book(*events).records.values()
    assert (record.attempts, record.failures, record.failed_at, record.message) == (6, 5, 6.0, "error 6")
    assert [succeeded for _, succeeded in record.latest] == [True, False, False, False, False, False]


def test_a_pause_is_a_failure_that_says_nothing_about_health():
    (record,) = book(AttemptStart(FAST), failed(1.0, is_broken=False)).records.values()
    assert (record.failures, record.latest, record.message) == (1, [], "it is down")


def test_checks_are_not_attempts_but_their_results_count():
    events = (AttemptStart(FAST, is_check=True), failed(1.0, is_check=True), AttemptStart(FAST, is_check=True))
    (record,) = book(*events, AttemptSuccess(FAST, 2.0, is_check=True)).records.values()
    assert (record.attempts, record.failures, record.checks, record.failed_checks) == (0, 0, 2, 1)
    assert record.latest == [(1.0, False), (2.0, True)]


def test_only_the_latest_results_are_kept_over_all_processes():
    one, other = (
        book(*(failed(float(at)) for at in range(100))),
        book(*(AttemptSuccess(FAST, at + 0.5) for at in range(100))),
    )
    one.add(other)
    (record,) = one.records.values()
    assert len(record.latest) == LATEST
    assert record.latest[0] == (95.0, False)
    assert record.latest[-1] == (99.5, True)


def test_the_results_of_the_last_ten_minutes_are_counted_over_all_processes():
    one = book(*(failed(at * 30.0) for at in range(20)))
    one.add(AttemptBook.from_json(orjson.loads(orjson.dumps(book(AttemptSuccess(FAST, 590.0)).to_json()))))
    one.add(book(*(AttemptSuccess(FAST, at * 60.0 + 1) for at in range(9))))
    (record,) = one.records.values()
    assert record.results_since(0.0) == (30, 20)
    assert record.results_since(300.0) == (15, 10)
    assert record.results_since(600.0) == (0, 0)


def test_no_more_minutes_are_kept_than_are_shown():
    (record,) = book(*(failed(minute * 60.0) for minute in (*range(50), 45, 3))).records.values()
    assert record.minutes == [(minute, 1 + (minute == 45), 1 + (minute == 45)) for minute in range(39, 50)]


def test_there_are_never_more_pairs_than_fit(monkeypatch):
    monkeypatch.setattr(attempts, "MAX_PAIRS", 3)
    full = book(*(AttemptStart(Subject(1, "first", f"m{number}")) for number in range(10)))
    assert {model: record.attempts for (_, model), record in full.records.items()} == {
        "m0": 1, "m1": 1, "m2": 1, OTHER: 7,
    }  # fmt: skip


def test_the_sum_of_several_processes_has_the_pairs_of_all(monkeypatch):
    monkeypatch.setattr(attempts, "MAX_PAIRS", 1)
    first, second = book(AttemptStart(FAST)), book(failed(1.0, subject=Subject(2, "second", "slow")))
    sums = [AttemptBook(), AttemptBook()]
    for total, parts in zip(sums, ((first, second), (second, first)), strict=True):
        for part in parts:
            total.add(part)
    assert sums[0].records == sums[1].records
    assert set(sums[0].records) == {(1, "fast"), (2, "slow")}


def test_it_survives_the_trip_to_other_processes():
    one = book(AttemptStart(FAST), failed(1.0), AttemptSuccess(FAST, 2.0), AttemptStart(Subject(2, "second", "slow")))
    copy = AttemptBook.from_json(orjson.loads(orjson.dumps(one.to_json())))
    assert copy.records == one.records
    assert one.by_provider().keys() == {1, 2}


def test_a_thousand_models_are_published_within_a_few_milliseconds():
    """It happens once a second, and requests wait for the interpreter meanwhile."""
    slots = Slots(1)
    metrics = Metrics(slots, slots.take())
    for subject in (Subject(number, "first", "fast") for number in range(1000)):
        for minute in range(20):
            metrics.note_attempt(AttemptSuccess(subject, minute * 60.0))
    metrics.aggregate({"fast"})
    begun = time.thread_time()
    metrics.publish({})
    assert time.thread_time() - begun < 0.04 * slowness()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_all_processes_add_up_also_one_that_died(is_replaced):
    slots = Slots(2)
    first, second = Metrics(slots, slots.take()), Metrics(slots, slots.take())
    for metrics in (first, second):
        metrics.note_attempt(AttemptStart(FAST))
        metrics.note_attempt(failed(5.0))
        metrics.aggregate({"fast"})
        metrics.publish({})
    if is_replaced:
        slots.release(1)
        second = Metrics(slots, slots.take())
        second.note_attempt(AttemptStart(FAST))
        second.aggregate({"fast"})
        second.publish({})
    (record,) = first.gather_attempts().records.values()
    assert (record.attempts, record.failures) == (3 if is_replaced else 2, 2)
    assert first.gather_attempts().records == second.gather_attempts().records
