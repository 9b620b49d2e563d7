"""Periodic tasks: run when they are due, whatever goes wrong in between."""

import threading

import pytest
from django.db import OperationalError

from gateway_project.background import PeriodicTask, PeriodicTasks


def counting(then=None):
    """An action that counts how often it is done, and its counter."""
    result = threading.Semaphore(0)

    def action() -> None:
        result.release()
        if then is not None:
            raise then

    return action, result


@pytest.mark.long
def test_a_task_runs_at_once_and_again_when_it_is_due(db):
    often, result = counting()
    rarely, once = counting()
    tasks = PeriodicTasks("tasks", [PeriodicTask(often, every=0.01), PeriodicTask(rarely, every=1000)])
    tasks.start()
    for _ in range(3):
        assert result.acquire(timeout=10)
    tasks.stop()
    assert once.acquire(blocking=False)
    assert not once.acquire(blocking=False)


def test_a_task_for_the_end_runs_at_the_end(db):
    action, result = counting()
    other, never = counting()
    tasks = PeriodicTasks("tasks", [PeriodicTask(action, every=1000, at_end=True), PeriodicTask(other, every=1000)])
    tasks.start()
    tasks.stop()
    assert result.acquire(blocking=False)
    assert not never.acquire(blocking=False)


@pytest.mark.long
def test_a_task_that_fails_is_tried_again_and_stops_no_other_task(db, caplog):
    broken, tried = counting(RuntimeError("broken"))
    away, request = counting(OperationalError("the server is gone\nand more"))
    good, result = counting()
    tasks = PeriodicTasks(
        "tasks", [PeriodicTask(broken, every=0.01), PeriodicTask(away, every=0.01), PeriodicTask(good, every=0.01)]
    )
    tasks.start()
    for counter in (tried, request, result):
        assert counter.acquire(timeout=10)
        assert counter.acquire(timeout=10)
    tasks.stop()
    results = [record.getMessage() for record in caplog.records if "database" in record.getMessage()]
    assert results == ["The task action waits for the database: the server is gone"]


@pytest.mark.long
def test_a_connection_that_cannot_be_given_back_stops_no_other_task(db, monkeypatch):
    first, result = counting()
    second, result_too = counting()
    tasks = PeriodicTasks("tasks", [PeriodicTask(first, every=0.01), PeriodicTask(second, every=0.01)])
    monkeypatch.setattr("gateway_project.background.connection", Refusing())
    tasks.start()
    for counter in (result, result_too, result, result_too):
        assert counter.acquire(timeout=10)
    tasks.stop()


class Refusing:
    """A connection that its server has closed."""

    in_atomic_block = False

    def close_if_unusable_or_obsolete(self):
        raise OperationalError("the server is gone")

    def close(self):
        pass
