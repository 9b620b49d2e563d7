"""Keeps the log's house: a thread in every process, of which one at a time does the work, in small pieces."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.utils import timezone

from gateway_project.background import Background
from telemetry import retention

log = logging.getLogger("gateway.housekeeping")

# A chore that has more to do than this goes on in the next round.
LONGEST_SECONDS = 30.0
# Between two pieces of work others have the database for as long as the piece took, and a little.
LEAST_PAUSE_SECONDS = 0.02

Chore = Callable[[datetime], bool]


def chores() -> dict[str, Chore]:
    """All of them, by name; each says whether there is more to do."""
    return {
        "partitions": retention.make_partitions,
        "entries": retention.delete_entries,
        "payloads": retention.EmptyPayloads(),
        "cache records": retention.delete_cache_records,
        "hours of usage": retention.merge_hours,
        "days of usage": retention.merge_days,
    }


class Housekeeper(Background):
    """The thread; `round()` does what there is to do once."""

    def __init__(self, *, interval: float) -> None:
        super().__init__("log housekeeper", log, every=interval)
        self._chores = chores()

    def round(self, seconds: float = LONGEST_SECONDS) -> list[str]:
        """Each chore, for so long at most; those that failed, which are tried again in the next round."""
        failed = []
        for name, chore in self._chores.items():
            try:
                self._work_off(name, chore, time.monotonic() + seconds)
            except DatabaseError as error:
                log.info("%s: the database does not let us now: %s", name, str(error).split("\n")[0])
                connection.close()
            except Exception:
                log.exception("%s: failed; it is tried again.", name)
            else:
                continue
            failed.append(name)
        return failed

    def _work_off(self, name: str, chore: Chore, until: float) -> None:
        while not self.stopped.is_set() and time.monotonic() < until:
            begun = time.monotonic()
            with alone(name) as ours:
                if not ours or not chore(timezone.now()):
                    return
            self.stopped.wait(LEAST_PAUSE_SECONDS + time.monotonic() - begun)


@contextmanager
def alone(name: str) -> Iterator[bool]:
    """A transaction; whether nobody else, in whatever process, is at the same piece of work."""
    with transaction.atomic():
        if connection.vendor != "postgresql":  # where a transaction has the database to itself
            yield True
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('gateway chore'), hashtext(%s))", [name])
            yield cursor.fetchone()[0]
