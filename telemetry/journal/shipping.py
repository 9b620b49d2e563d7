"""Ships the journal into the database, in batches (ingestion.py). While it is down, the journal keeps the records."""

import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from django.db import Error as DatabaseError
from django.db import connection

from gateway_project.background import BackgroundThread
from keys.models import ApiKey
from telemetry.journal import files as journals
from telemetry.journal.adoption import adopt_journal
from telemetry.journal.files import END, START, Journal, Record, Segment
from telemetry.journal.ingestion import (
    PositionConflict,
    database_accepts,
    next_batch,
    pending_hits,
    store_batch,
    stored_position,
)
from telemetry.models import JournalPosition

log = logging.getLogger("gateway.shipper")

BATCH_KEYS = 1000
PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 5.0
ADOPT_EVERY_SECONDS = 3.0
MIN_AGE_SECONDS = 5.0  # of an abandoned journal before it is adopted; 0 for ship_soon()
KEYS_EVERY_SECONDS = 5.0
# As SQL text: with the ORM, compiling the query for each key takes most of the time.
_UPDATE_LAST_USED = f'''
    UPDATE "{ApiKey._meta.db_table}" SET "last_used" = %(at)s
    WHERE "id" = %(id)s AND ("last_used" IS NULL OR "last_used" < %(at)s)
'''


class Backlog(NamedTuple):
    """The bytes in the journal that are not in the database yet, and their greatest possible age in seconds."""

    bytes: int
    seconds: float


class Shipper(BackgroundThread):
    """The thread that ships this process's journal and those of dead processes.

    When it is stopped, it ships what is left. What it cannot ship in time waits for the next start.
    """

    stop_seconds = 10.0

    def __init__(self, journal: Journal, root: Path, *, interval: float = PAUSE_SECONDS) -> None:
        super().__init__("shipper", log, every=interval)
        self._journal = journal
        self._root = root
        self._shipped: dict[Path, int] = {}
        self._open_segments: dict[int, Segment] = {}
        self._used_keys: dict[int, float] = {}
        self._last_adoption = self._last_key_write = self._caught_up = time.monotonic()
        self._all_stored = self._wants_all = 0.0
        self._failed_adoptions: set[Path] = set()
        self._failures = 0
        self._in_doubt: set[Path] = set()

    def backlog(self) -> Backlog:
        """The part of this process's journal that is not in the database yet."""
        waiting = sum(segment.end - self._shipped.get(segment.path, 0) for segment in list(self._journal.segments))
        return Backlog(waiting, time.monotonic() - self._caught_up if waiting else 0.0)

    def ship_soon(self) -> float:
        """Begin a run now, which also adopts all abandoned journals. Returns the time, for has_stored_all()."""
        self._wants_all = time.monotonic()
        self.wake()
        return self._wants_all

    def has_stored_all(self, moment: float) -> bool:
        """Whether the database has all that this process, and dead ones on this machine, logged up to a moment."""
        return self._all_stored >= moment

    def stop(self) -> None:
        super().stop()
        if not self.is_running:
            self._journal.close()

    def record_key_use(self, key_id: int, at: float) -> None:
        """Note when a key was last used; the times are written every few seconds."""
        self._used_keys[key_id] = at

    def ship(self) -> bool:
        """Ship all new records; returns whether they are stored."""
        started_at = time.monotonic()
        # Records that are written from now on wait for the next run. Otherwise this one might never end.
        ends = [(segment, segment.end) for segment in list(self._journal.segments)]
        try:
            for segment, end in ends:
                self._ship_segment(segment, end)
            self._caught_up = started_at  # records that are left were written later
            pending_hits.flush()
            self._write_used_keys()
            if self._adopt():
                self._all_stored = started_at
        except (DatabaseError, OSError) as error:
            self._pause_shipping(error)
            return False
        # Another process adopted the journal, or a commit came late, or the database was restored to an earlier state.
        except PositionConflict as error:
            if not self._failures:
                log.warning(
                    "The database has another position in %s than expected. Shipping continues from that position.",
                    error,
                )
            self._count_failure()
            self._in_doubt.update(segment.path for segment in self._journal.segments)
            return False
        self._failures = 0
        return True

    def pause(self) -> float:
        return min(self.every * 2**self._failures, MAX_PAUSE_SECONDS)

    def run_once(self) -> None:
        try:
            self.ship()
        except Exception:
            self._count_failure()
            raise

    def run_last(self) -> None:
        self._last_key_write = 0.0
        self._journal.seal()
        self.ship()

    def _count_failure(self) -> None:
        self._failures = min(self._failures + 1, 10)

    def _ship_segment(self, segment: Segment, end: int) -> None:
        name = f"{self._journal.name}/{segment.path.name}"
        if segment.path in self._in_doubt:
            self._catch_up(name, segment)
        while True:
            start = self._shipped.get(segment.path, 0)
            batch = next_batch(segment.records(start, end))
            if not batch:
                break
            store_batch(name, start, batch, self._root)
            self._shipped[segment.path] = batch[-1].end
            segment.release(batch[-1].end)
            self._track_open_requests(segment, batch)
        is_shipped = segment.sealed and self._shipped.get(segment.path, 0) == segment.end
        # Oldest first: without the segment of its end record, a start record would look like an aborted request.
        if is_shipped and segment is self._journal.segments[0] and segment not in self._open_segments.values():
            self._journal.remove_segment(segment)
            self._shipped.pop(segment.path, None)
            self._in_doubt.discard(segment.path)
            JournalPosition.objects.filter(journal=name).delete()

    def _catch_up(self, name: str, segment: Segment) -> None:
        """Read the position from the database. After a connection broke during a commit, it is not known."""
        start, position = self._shipped.get(segment.path, 0), stored_position(name)
        self._shipped[segment.path] = position
        if position > start:
            self._track_open_requests(segment, list(segment.records(start, position)))
        self._in_doubt.discard(segment.path)

    def _track_open_requests(self, segment: Segment, batch: list[Record]) -> None:
        """Note in which segment open requests began. It stays until they have ended, since a restart may abort them."""
        for record in batch:
            if record.kind == START:
                self._open_segments[record.number] = segment
            elif record.kind == END:
                self._open_segments.pop(record.number, None)

    def _write_used_keys(self) -> None:
        if not self._used_keys or time.monotonic() - self._last_key_write < KEYS_EVERY_SECONDS:
            return
        self._last_key_write = time.monotonic()
        uses, self._used_keys = self._used_keys, {}
        try:
            _write_last_used(uses)
        except DatabaseError:
            self._used_keys = uses | self._used_keys  # uses noted meanwhile are newer
            raise

    def _adopt(self) -> bool:
        """Adopt the journals of dead processes if it is time to; returns whether it was."""
        is_wanted = self._all_stored < self._wants_all
        if not is_wanted and time.monotonic() - self._last_adoption < ADOPT_EVERY_SECONDS:
            return False
        self._last_adoption = time.monotonic()
        failed = set()
        youngest = 0.0 if is_wanted else MIN_AGE_SECONDS
        for folder, handle in journals.abandoned_journals(self._root, older_than=youngest):
            try:
                adopt_journal(folder)
            except Exception:  # a broken journal must not block the others
                if not database_accepts(0):
                    raise
                failed.add(folder)
                if folder not in self._failed_adoptions:
                    log.exception(
                        "The journal in %s cannot be written to the database. The gateway tries again.", folder
                    )
            finally:
                os.close(handle)
        self._failed_adoptions = failed
        return True

    def _pause_shipping(self, error: Exception) -> None:
        if not self._failures:
            store = "database" if isinstance(error, DatabaseError) else "disk"
            log.warning("The %s accepts no entries. The journal keeps them: %s", store, str(error).split("\n")[0])
        self._count_failure()
        connection.close()
        for segment in list(self._journal.segments):
            self._in_doubt.add(segment.path)
            segment.sync()


def _write_last_used(uses: dict[int, float]) -> None:
    """Write when keys were last used. They are sorted by id against deadlocks, and a later stored time stays."""
    moment = connection.ops.adapt_datetimefield_value
    rows = [{"id": key_id, "at": moment(datetime.fromtimestamp(at, UTC))} for key_id, at in sorted(uses.items())]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), BATCH_KEYS):  # the statement timeout applies to each batch
            cursor.executemany(_UPDATE_LAST_USED, rows[start : start + BATCH_KEYS])
