"""Periodic maintenance of the log: a thread in every process; each task runs in one at a time, in small batches."""

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from django.db import connection, transaction
from django.utils import timezone

from gateway_project.background import PeriodicTask, PeriodicTasks
from telemetry.audit.retention import delete_segment, look_at_head
from telemetry.retention import deletion

# A task that takes longer continues in the next round.
MAX_TASK_SECONDS = 30.0
# Between two batches a task pauses for as long as the batch took plus this, so that others get the database.
MIN_PAUSE_SECONDS = 0.02

Batch = Callable[[datetime], bool]


def batches() -> dict[str, Batch]:
    """The batch of each task by the task's name; it returns whether there may be more to do."""
    return {
        "partitions": deletion.make_partitions,
        "entries": deletion.delete_entries,
        "refusals": deletion.RefusalEraser(),
        "payloads": deletion.PayloadEraser(),
        "cache records": deletion.delete_cache_records,
        "audit": delete_segment,
        "head of the audit": look_at_head,
        "samples of guardrails": deletion.delete_samples,
        "owners of stored responses": deletion.delete_owners,
        "hours of usage": deletion.merge_hours,
        "days of usage": deletion.merge_days,
        "rollups of usage": deletion.RollupCheck(),
        "hours of guardrails": deletion.merge_guardrail_hours,
    }


class Housekeeper(PeriodicTasks):
    """The thread that runs every task of the maintenance in each round; a database that is busy is tried again."""

    def __init__(self, *, interval: float, on_batch: Callable[[str, int], None] | None = None) -> None:
        """`on_batch` is called with the task's name and the batch's number, from 1, before each batch."""
        self._max_task_seconds = MAX_TASK_SECONDS
        self._on_batch = on_batch
        tasks = [self._task(name, batch) for name, batch in batches().items()]
        super().__init__("log housekeeper", tasks, every=interval)

    def run_to_the_end(self) -> list[str]:
        """Run each task until nothing is left to do; returns the names of those that failed."""
        self._max_task_seconds = float("inf")
        self.run_once()
        return [task.name for task in self.tasks if task.has_failed]

    def _task(self, name: str, batch: Batch) -> PeriodicTask:
        return PeriodicTask(partial(self._run_batches, name, batch), name=name, every=0, database_level=logging.INFO)

    def _run_batches(self, name: str, batch: Batch) -> None:
        deadline = time.monotonic() + self._max_task_seconds
        for number in itertools.count(1):
            begin = time.monotonic()
            if self.stopped.is_set() or begin >= deadline:
                return
            if self._on_batch is not None:
                self._on_batch(name, number)
            with hold_task_lock(name) as acquired:
                if not acquired or not batch(timezone.now()):
                    return
            self.stopped.wait(MIN_PAUSE_SECONDS + time.monotonic() - begin)


@contextmanager
def hold_task_lock(name: str) -> Iterator[bool]:
    """A transaction that holds the task's lock; yields False if another process holds it."""
    with transaction.atomic():
        if connection.vendor != "postgresql":  # SQLite: a write transaction locks the whole database
            yield True
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('gateway chore'), hashtext(%s))", [name])
            yield bool(cursor.fetchone()[0])
