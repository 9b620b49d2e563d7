"""Ships the journal into the database, batch by batch (carrying.py). It may be away: the journal waits."""

import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from django.db import Error as DatabaseError
from django.db import connection

from gateway_project.background import Background
from keys.models import ApiKey
from telemetry import journal as journals
from telemetry.adoption import adopt
from telemetry.carrying import AdoptedElsewhere, carry, early_hits, next_batch, position, takes
from telemetry.journal import END, START, Journal, Record, Segment
from telemetry.models import JournalPosition

log = logging.getLogger("gateway.shipper")

BATCH_KEYS = 1000
PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
ADOPT_EVERY_SECONDS = 3.0
KEYS_EVERY_SECONDS = 5.0
# As text: the ORM spends most of its time on putting it together, for each key anew.
_USED = f'''
    UPDATE "{ApiKey._meta.db_table}" SET "last_used" = %(at)s
    WHERE "id" = %(id)s AND ("last_used" IS NULL OR "last_used" < %(at)s)
'''


class Backlog(NamedTuple):
    """Bytes in the journal that are not in the database, and how many seconds old they are at most."""

    bytes: int
    seconds: float


class Shipper(Background):
    """The thread that ships this process's journal, and those of processes that died.

    When it is stopped it ships what there is; what does not arrive in time waits for the next start.
    """

    stop_seconds = 10.0

    def __init__(self, journal: Journal, root: Path, *, interval: float = PAUSE_SECONDS) -> None:
        super().__init__("shipper", log, every=interval)
        self._journal = journal
        self._root = root
        self._shipped: dict[Path, int] = {}
        self._open: dict[int, Segment] = {}
        self._used_keys: dict[int, float] = {}
        self._adopted = self._wrote_keys = self._caught_up = time.monotonic()
        self.has_adopted = False  # whether the database has what processes left behind that died before this one
        self._not_adopted: set[Path] = set()
        self._failures = 0
        self._in_doubt: set[Path] = set()

    def backlog(self) -> Backlog:
        """What the database does not have yet of this process's journal."""
        waiting = sum(segment.end - self._shipped.get(segment.path, 0) for segment in list(self._journal.segments))
        return Backlog(waiting, time.monotonic() - self._caught_up if waiting else 0.0)

    def has_shipped(self, until: float) -> bool:
        """Whether the database has what this process logged up to a moment (seconds since 1970)."""
        return time.time() - (time.monotonic() - self._caught_up) >= until

    def stop(self) -> None:
        super().stop()
        if not self.is_running:
            self._journal.close()

    def key_used(self, key_id: int, at: float) -> None:
        """Note when a key was last used; written every few seconds."""
        self._used_keys[key_id] = at

    def ship(self) -> bool:
        """Ship all that is new; whether the database took it."""
        begun = time.monotonic()
        try:
            for segment in list(self._journal.segments):
                self._ship_segment(segment)
            self._caught_up = begun  # what is still there was written since
            early_hits.count()
            self._write_used_keys()
            self._adopt()
        except (DatabaseError, OSError) as error:
            self._away(error)
            return False
        except AdoptedElsewhere as error:  # or a commit came late, or the database was restored to an earlier state
            if not self._failures:
                log.warning(
                    "The database is not where this process left it in %s; it tells from where to go on.", error
                )
            self._count_failure()
            self._in_doubt.update(segment.path for segment in self._journal.segments)
            return False
        self._failures = 0
        return True

    def pause(self) -> float:
        return min(self.every * 2**self._failures, LONGEST_PAUSE_SECONDS)

    def round(self) -> None:
        try:
            self.ship()
        except Exception:
            self._count_failure()
            raise

    def last_round(self) -> None:
        self._wrote_keys = 0.0
        self._journal.seal()
        self.ship()

    def _count_failure(self) -> None:
        self._failures = min(self._failures + 1, 10)

    def _ship_segment(self, segment: Segment) -> None:
        name = f"{self._journal.name}/{segment.path.name}"
        if segment.path in self._in_doubt:
            self._catch_up(name, segment)
        while True:
            start = self._shipped.get(segment.path, 0)
            batch = next_batch(segment.records(start))
            if not batch:
                break
            carry(name, start, batch, self._root)
            self._shipped[segment.path] = batch[-1].end
            segment.release(batch[-1].end)
            self._follow_open(segment, batch)
        done = segment.sealed and self._shipped.get(segment.path, 0) == segment.end
        # The oldest first: what ended in a later one must not outlive its end and seem aborted.
        if done and segment is self._journal.segments[0] and segment not in self._open.values():
            self._journal.forget(segment)
            self._shipped.pop(segment.path, None)
            self._in_doubt.discard(segment.path)
            JournalPosition.objects.filter(journal=name).delete()

    def _catch_up(self, name: str, segment: Segment) -> None:
        """A connection that broke at a commit leaves open whether the batch is stored: the database tells."""
        start, stored = self._shipped.get(segment.path, 0), position(name)
        self._shipped[segment.path] = stored
        if stored > start:
            self._follow_open(segment, [record for record in segment.records(start) if record.end <= stored])
        self._in_doubt.discard(segment.path)

    def _follow_open(self, segment: Segment, batch: list[Record]) -> None:
        """A segment stays until every request that began in it has ended: a restart may have to close them."""
        for record in batch:
            if record.kind == START:
                self._open[record.number] = segment
            elif record.kind == END:
                self._open.pop(record.number, None)

    def _write_used_keys(self) -> None:
        if not self._used_keys or time.monotonic() - self._wrote_keys < KEYS_EVERY_SECONDS:
            return
        self._wrote_keys = time.monotonic()
        used, self._used_keys = self._used_keys, {}
        try:
            _note_use(used)
        except DatabaseError:
            self._used_keys = used | self._used_keys  # what came meanwhile is newer
            raise

    def _adopt(self) -> None:
        if time.monotonic() - self._adopted < ADOPT_EVERY_SECONDS:
            return
        self._adopted = time.monotonic()
        left = set()
        for folder, claim in journals.abandoned(self._root):
            try:
                adopt(folder)
            except Exception:  # the folders behind it are not to wait for somebody who looks into it
                if not takes(0):
                    raise
                left.add(folder)
                if folder not in self._not_adopted:
                    log.exception("The journal in %s cannot be carried into the database; it is tried again.", folder)
            finally:
                os.close(claim)
        self._not_adopted = left
        self.has_adopted = True

    def _away(self, error: Exception) -> None:
        if not self._failures:
            what = "database" if isinstance(error, DatabaseError) else "disk"
            log.warning("The %s takes no entries; the journal keeps them: %s", what, str(error).split("\n")[0])
        self._count_failure()
        connection.close()
        for segment in list(self._journal.segments):
            self._in_doubt.add(segment.path)
            segment.sync()


def _note_use(used: dict[int, float]) -> None:
    """Write when keys were last used, in one order everywhere; another process may know of a later use."""
    moment = connection.ops.adapt_datetimefield_value
    rows = [{"id": key_id, "at": moment(datetime.fromtimestamp(at, UTC))} for key_id, at in sorted(used.items())]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), BATCH_KEYS):  # each has the time of one statement
            cursor.executemany(_USED, rows[start : start + BATCH_KEYS])
