"""Stores batches of journal records in the database, each record exactly once.

How far a segment has been carried is a row of the same transaction as the entries, so that a batch is
either stored and counted, or neither.
"""

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from django.db import DataError, IntegrityError, connection, transaction
from django.db import Error as DatabaseError
from django.utils import timezone

from telemetry.batches import count_hits, insert_cache_entries, insert_log_entries
from telemetry.hits import EarlyHits
from telemetry.journal import CACHED, END, EVENT, Record
from telemetry.models import JournalPosition
from telemetry.records import empty_log_entry, written

log = logging.getLogger("gateway.shipper")
early_hits = EarlyHits()

BATCH_RECORDS = 500
BATCH_BYTES = 1024 * 1024
TRIES = 3
REFUSED_NAME = "refused.jsonl"
# As text: the ORM spends most of its time on putting it together, for each batch anew.
_MOVE = (
    f'UPDATE "{JournalPosition._meta.db_table}" SET "position" = %s, "updated_at" = CURRENT_TIMESTAMP '
    'WHERE "journal" = %s AND "position" = %s'
)


class AdoptedElsewhere(Exception):
    """Another process carries this journal: it took us for dead."""


def next_batch(records: Iterable[Record]) -> list[Record]:
    """The first of the records, as many as one statement takes."""
    batch, size = [], 0
    for record in records:
        batch.append(record)
        size += len(record.payload)
        if len(batch) >= BATCH_RECORDS or size > BATCH_BYTES:
            break
    return batch


def position(name: str) -> int:
    """How far the database has a segment."""
    return JournalPosition.objects.filter(journal=name).values_list("position", flat=True).first() or 0


def carry(name: str, start: int, batch: list[Record], root: Path) -> None:
    """Store a batch; what a database refuses that takes others like it is put aside. Raises DatabaseError, OSError."""
    if _carried(name, start, batch):
        return
    if len(batch) == 1:
        _put_aside(root, batch[0])
        with transaction.atomic():
            _move(name, start, batch[0].end)
        return
    middle = len(batch) // 2
    carry(name, start, batch[:middle], root)
    carry(name, batch[middle - 1].end, batch[middle:], root)


def takes(size: int) -> bool:
    """Whether the database would store an entry of so many bytes with nothing in it that can be wrong."""
    entry = empty_log_entry() | {"timestamp": timezone.now(), "payload": "x" * size}
    try:
        with transaction.atomic():
            insert_log_entries([written(entry)])
            transaction.set_rollback(True)
    except DatabaseError:
        return False
    return True


def _put_aside(root: Path, record: Record) -> None:
    """Keep a record that the database refuses where a person can look at it. Raises OSError, with nothing written."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (root / REFUSED_NAME).open("ab", buffering=0) as file:
        before, line = file.tell(), record.payload + b"\n"
        if file.write(line) < len(line):
            file.truncate(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.name)
    log.error("The database refused a log entry; it is kept in %s.", root / REFUSED_NAME)


def _carried(name: str, start: int, batch: list[Record]) -> bool:
    """Whether a batch is stored now. Raises DatabaseError where the database would not take another one either."""
    for _ in range(TRIES if len(batch) == 1 else 1):  # a lock may have been in the way
        try:
            _store(name, start, batch)
            return True
        except (DataError, IntegrityError, ValueError):
            return False
        except DatabaseError:  # whatever its kind: SQLite calls all that it cannot read by one name
            if not takes(max(len(record.payload) for record in batch)):
                raise
    return False


def _store(name: str, start: int, batch: list[Record]) -> None:
    """Store a batch and how far it reaches, or neither."""
    with transaction.atomic():
        _move(name, start, batch[-1].end)
        entries = [record.payload for record in batch if record.kind in (END, EVENT)]
        insert_log_entries(entries)
        insert_cache_entries([record.payload for record in batch if record.kind == CACHED])
        early = count_hits(entries)
    early_hits.note(early)


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
