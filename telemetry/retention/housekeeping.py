"""Periodic maintenance of the log: a thread in every process; each task runs in one at a time, in small batches."""

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.utils import timezone

from gateway_project.background import BackgroundThread
from telemetry.retention import deletion

log = logging.getLogger("gateway.housekeeping")

# A task that takes longer continues in the next round.
MAX_TASK_SECONDS = 30.0
# Between two batches a task pauses for as long as the batch took plus this, so that others get the database.
MIN_PAUSE_SECONDS = 0.02

PeriodicTask = Callable[[datetime], bool]


def periodic_tasks() -> dict[str, PeriodicTask]:
    """The tasks by name; each does one batch and returns whether there may be more."""
    return {
        "partitions": deletion.make_partitions,
        "entries": deletion.delete_entries,
        "payloads": deletion.PayloadEraser(),
        "cache records": deletion.delete_cache_records,
        "hours of usage": deletion.merge_hours,
        "days of usage": deletion.merge_days,
    }


class Housekeeper(BackgroundThread):
    """The thread that runs the tasks; `run_once()` runs each once."""

    def __init__(self, *, interval: float, on_batch: Callable[[str, int], None] | None = None) -> None:
        """`on_batch` is called with the task's name and the batch's number, from 1, before each batch."""
        super().__init__("log housekeeper", log, every=interval)
        self._on_batch = on_batch
        self._tasks = periodic_tasks()

    def run_once(self, seconds: float = MAX_TASK_SECONDS) -> list[str]:
        """Run each task for at most so many seconds; returns the names of those that failed, which are tried again."""
        failed = []
        for name, task in self._tasks.items():
            try:
                self._run_task(name, task, time.monotonic() + seconds)
            except DatabaseError as error:
                log.info("%s: the database does not let us now: %s", name, str(error).split("\n")[0])
                connection.close()
            except Exception:
                log.exception("%s: failed; it will be retried.", name)
            else:
                continue
            failed.append(name)
        return failed

    def _run_task(self, name: str, task: PeriodicTask, until: float) -> None:
        for batch in itertools.count(1):
            begun = time.monotonic()
            if self.stopped.is_set() or begun >= until:
                return
            if self._on_batch is not None:
                self._on_batch(name, batch)
            with exclusively(name) as acquired:
                if not acquired or not task(timezone.now()):
                    return
            self.stopped.wait(MIN_PAUSE_SECONDS + time.monotonic() - begun)


@contextmanager
def exclusively(name: str) -> Iterator[bool]:
    """A transaction that holds the task's lock; yields False if another process holds it."""
    with transaction.atomic():
        if connection.vendor != "postgresql":  # SQLite: a write transaction locks the whole database
            yield True
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('gateway chore'), hashtext(%s))", [name])
            yield cursor.fetchone()[0]
