"""Carries the journal into the database, in batches, each record exactly once.

How far a segment has been carried is a row of the same transaction as the entries, so that a batch is
either stored and counted, or neither. The database may be away: the journal waits.
"""

import contextlib
import errno
import logging
import mmap
import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import orjson
from django.db import DataError, IntegrityError, connection, transaction
from django.db import Error as DatabaseError
from django.utils import timezone

from gateway_project.background import Background
from keys.models import ApiKey
from telemetry import journal as journals
from telemetry.batches import count_hits, insert_cache_entries, insert_log_entries
from telemetry.hits import EarlyHits
from telemetry.journal import CACHED, END, EVENT, START, Journal, Record, Segment
from telemetry.models import JournalPosition
from telemetry.records import empty_log_entry, written

log = logging.getLogger("gateway.shipper")
early_hits = EarlyHits()

BATCH_RECORDS = 500
BATCH_BYTES = 1024 * 1024
BATCH_KEYS = 1000
PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
ADOPT_EVERY_SECONDS = 3.0
KEYS_EVERY_SECONDS = 5.0
TRIES = 3
REFUSED_NAME = "refused.jsonl"
# As text: the ORM spends most of its time on putting them together, for a batch or for each key anew.
_USED = f'''
    UPDATE "{ApiKey._meta.db_table}" SET "last_used" = %(at)s
    WHERE "id" = %(id)s AND ("last_used" IS NULL OR "last_used" < %(at)s)
'''
_MOVE = f'UPDATE "{JournalPosition._meta.db_table}" SET "position" = %s WHERE "journal" = %s AND "position" = %s'


class Backlog(NamedTuple):
    """Bytes in the journal that are not in the database, and how many seconds old they are at most."""

    bytes: int
    seconds: float


class AdoptedElsewhere(Exception):
    """Another process carries this journal: it took us for dead."""


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
        except AdoptedElsewhere:  # or the database was restored to an earlier state: it tells where to go on
            self._in_doubt.update(segment.path for segment in self._journal.segments)
            raise
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
            batch = _batch(segment.records(start))
            if not batch:
                break
            _carry_or_put_aside(name, start, batch, self._root)
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
        start, stored = self._shipped.get(segment.path, 0), _position(name)
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
                if not _takes(0):
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


def adopt(folder: Path) -> int:
    """Ship a dead process's journal, close its open requests as aborted, and remove it; the number closed."""
    opened: dict[int, bytes] = {}
    ended: set[int] = set()
    position = ""
    for path in journals.segment_paths(folder):
        position = f"{folder.name}/{path.name}"
        _adopt_segment(position, path, opened, ended)
    aborted = [payload for number, payload in opened.items() if number not in ended]
    closed = f"{folder.name}/closed"
    if aborted and not _position(closed):  # some of the files may be gone since, and with them the ends in them
        _close(f"{folder.name}/aborted", aborted, folder.parent)
    if position:
        JournalPosition.objects.get_or_create(journal=closed, defaults={"position": 1})
    for path in journals.segment_paths(folder):
        _remove(path)
    (folder / journals.LOCK_NAME).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
    JournalPosition.objects.filter(journal__startswith=f"{folder.name}/").delete()
    if aborted:
        log.warning("A process ended with %d requests open; they are logged as aborted.", len(aborted))
    return len(aborted)


def put_aside(root: Path, record: Record) -> None:
    """Keep a record that the database refuses where a person can look at it. Raises OSError, with nothing written."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (root / REFUSED_NAME).open("ab", buffering=0) as file:
        before, line = file.tell(), record.payload + b"\n"
        if file.write(line) < len(line):
            file.truncate(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.name)
    log.error("The database refused a log entry; it is kept in %s.", root / REFUSED_NAME)


def _adopt_segment(name: str, path: Path, opened: dict[int, bytes], ended: set[int]) -> None:
    if not path.stat().st_size:
        return  # its process died while it made the file, which cannot be mapped
    shipped = _position(name)
    with _mapped(path) as data:
        for record in journals.salvaged(data):
            if record.kind == START:
                opened[record.number] = record.payload
            elif record.kind == END:
                ended.add(record.number)
        while batch := _batch(journals.salvaged(data, shipped)):
            _carry_or_put_aside(name, shipped, batch, path.parent.parent)
            shipped = batch[-1].end


def _close(name: str, starts: list[bytes], root: Path) -> None:
    """Log requests that nobody will end, each once: how many of them are logged is a position like a segment's."""
    entries = [Record(END, 0, _aborted(start), place) for place, start in enumerate(starts, start=1)]
    done = _position(name)
    while batch := _batch(entries[done:]):
        _carry_or_put_aside(name, done, batch, root)
        done = batch[-1].end


def _remove(path: Path) -> None:
    """Delete a segment that has been carried, unless bytes of it could not be read."""
    if path.stat().st_size:
        with _mapped(path) as data:
            damaged = journals.is_damaged(data)
        if damaged:
            kept = path.parent.parent / f"{path.parent.name}-{path.name}.damaged"
            log.error("A journal's segment is damaged: what can be read of it is logged, and all of it is in %s.", kept)
            path.rename(kept)
            return
    path.unlink()


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _carry_or_put_aside(name: str, start: int, batch: list[Record], root: Path) -> None:
    """Store a batch; what a database refuses that takes others like it is put aside. Raises DatabaseError, OSError."""
    if _carried(name, start, batch):
        return
    if len(batch) == 1:
        put_aside(root, batch[0])
        with transaction.atomic():
            _move(name, start, batch[0].end)
        return
    middle = len(batch) // 2
    _carry_or_put_aside(name, start, batch[:middle], root)
    _carry_or_put_aside(name, batch[middle - 1].end, batch[middle:], root)


def _carried(name: str, start: int, batch: list[Record]) -> bool:
    """Whether a batch is stored now. Raises DatabaseError where the database would not take another one either."""
    for _ in range(TRIES if len(batch) == 1 else 1):  # a lock may have been in the way
        try:
            _carry(name, start, batch)
            return True
        except (DataError, IntegrityError, ValueError):
            return False
        except DatabaseError:  # whatever its kind: SQLite calls all that it cannot read by one name
            if not _takes(max(len(record.payload) for record in batch)):
                raise
    return False


def _takes(size: int) -> bool:
    """Whether the database would store an entry of so many bytes with nothing in it that can be wrong."""
    entry = empty_log_entry() | {"timestamp": timezone.now(), "payload": "x" * size}
    try:
        with transaction.atomic():
            insert_log_entries([written(entry)])
            transaction.set_rollback(True)
    except DatabaseError:
        return False
    return True


def _batch(records: Iterable[Record]) -> list[Record]:
    batch, size = [], 0
    for record in records:
        batch.append(record)
        size += len(record.payload)
        if len(batch) >= BATCH_RECORDS or size > BATCH_BYTES:
            break
    return batch


def _carry(name: str, start: int, batch: list[Record]) -> None:
    """Store a batch and how far it reaches, or neither."""
    with transaction.atomic():
        _move(name, start, batch[-1].end)
        entries = [record.payload for record in batch if record.kind in (END, EVENT)]
        insert_log_entries(entries)
        insert_cache_entries([record.payload for record in batch if record.kind == CACHED])
        early = count_hits(entries)
    early_hits.note(early)


def _note_use(used: dict[int, float]) -> None:
    """Write when keys were last used, in one order everywhere; another process may know of a later use."""
    moment = connection.ops.adapt_datetimefield_value
    rows = [{"id": key_id, "at": moment(datetime.fromtimestamp(at, UTC))} for key_id, at in sorted(used.items())]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), BATCH_KEYS):  # each has the time of one statement
            cursor.executemany(_USED, rows[start : start + BATCH_KEYS])


def _position(name: str) -> int:
    """How far the database has a segment."""
    return JournalPosition.objects.filter(journal=name).values_list("position", flat=True).first() or 0


def _move(name: str, start: int, end: int) -> None:
    """Move a journal's position from start to end; only one of several who try succeeds."""
    if start == 0:
        moved = JournalPosition.objects.get_or_create(journal=name, defaults={"position": end})[1]
    else:
        with connection.cursor() as cursor:
            cursor.execute(_MOVE, [end, name, start])
            moved = cursor.rowcount
    if not moved:
        raise AdoptedElsewhere(name)


def _aborted(start: bytes) -> bytes:
    entry = empty_log_entry() | orjson.loads(start)
    asked = entry["attempts"] > 0
    entry |= {
        "outcome": "aborted",
        "severity": "error",
        "entry_source": "Worker" if asked else "Not Set",
        "cost_status": "unknown" if asked else "",
        "message": "The gateway's process ended before this request did.",
    }
    return orjson.dumps(entry)
