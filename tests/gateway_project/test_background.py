"""Threads that do one thing again and again."""

import logging
import threading
import time

import pytest
from django.db import InterfaceError, OperationalError

from gateway_project import background
from gateway_project.background import BackgroundThread, in_slices

log = logging.getLogger("gateway.test")


class Counting(BackgroundThread):
    """Counts its rounds; each raises the next of `errors`, as long as there are any."""

    stop_seconds = 5.0

    def __init__(self, *errors, every=0.01):
        super().__init__("counter", log, every=every)
        self.errors = list(errors)
        self.rounds = self.ends = 0
        self.counted = threading.Semaphore(0)

    def run_once(self):
        self.rounds += 1
        self.counted.release()
        if self.errors:
            raise self.errors.pop(0)

    def run_last(self):
        self.ends += 1


@pytest.fixture
def begin():
    """Starts one, and stops it at the end of the test."""
    begun = []

    def start(made):
        begun.append(made)
        made.start()
        return made

    yield start
    for one in begun:
        one.stop()


def wait_for(counting, rounds):
    for _ in range(rounds):
        assert counting.counted.acquire(timeout=10)


@pytest.mark.long
def test_it_goes_on_at_its_pace_whatever_goes_wrong(begin):
    began = time.monotonic()
    wait_for(begin(Counting(*[ZeroDivisionError()] * 100, every=0.05)), 4)
    assert time.monotonic() - began > 0.19


@pytest.mark.long
def test_what_goes_wrong_in_every_round_is_told_once_and_so_is_its_end(begin, caplog):
    errors = [ZeroDivisionError(), OperationalError("gone\nand more"), ZeroDivisionError(), InterfaceError("closed")]
    wait_for(begin(Counting(*errors * 5)), 23)
    assert [record.getMessage() for record in caplog.records] == [
        "The counter failed. The gateway tries again.",
        "The counter waits for the database: gone",
        "The counter resumed.",
    ]


def test_what_comes_back_is_told_again(begin, caplog):
    counting = begin(Counting(ZeroDivisionError()))
    wait_for(counting, 3)
    counting.errors = [ZeroDivisionError()]
    wait_for(counting, 3)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"] * 2


def test_whoever_wakes_it_does_not_wait(begin):
    counting = begin(Counting(every=1000))
    counting.wake()
    wait_for(counting, 1)


def test_one_that_is_stopped_does_what_is_left_to_do_and_ends_at_once(begin):
    counting = begin(Counting(every=1000))
    counting.stop()
    assert not counting.is_running
    assert (counting.rounds, counting.ends) == (0, 1)


def test_one_that_was_never_started_can_be_stopped():
    Counting().stop()


@pytest.mark.parametrize(("length", "pauses"), [(0, 0), (63, 0), (64, 1), (200, 3)])
def test_a_thread_that_computes_pauses_between_slices(monkeypatch, length, pauses):
    waits = []
    monkeypatch.setattr(background.time, "sleep", waits.append)
    assert list(in_slices(range(length))) == list(range(length))
    assert len(waits) == pauses
