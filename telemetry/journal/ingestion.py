"""Stores batches of journal records in the database, each record exactly once.

The position up to which a segment is stored is a row. It is written in the same transaction as the entries: both are
committed, or neither is.
"""

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from django.db import DataError, IntegrityError, connection, transaction
from django.db import Error as DatabaseError
from django.utils import timezone

from gateway_project.background import in_slices
from gateway_project.database.saving import is_state_of_database
from telemetry.journal.batches import (
    count_hits,
    insert_cache_entries,
    insert_log_entries,
    insert_owners,
    insert_samples,
)
from telemetry.journal.files import CACHED, END, EVENT, OWNED, SAMPLED, Record
from telemetry.journal.hits import PendingHits
from telemetry.journal.records import empty_log_entry, to_record
from telemetry.models import JournalPosition

log = logging.getLogger("gateway.shipper")
pending_hits = PendingHits()

# Large, because the fixed cost of a statement in PostgreSQL is that of fifty rows.
BATCH_RECORDS = 1000
BATCH_BYTES = 2 * 1024 * 1024
MAX_TRIES = 3
REJECTED_FILE = "refused.jsonl"
# As SQL text: with the ORM, compiling the query for each batch takes most of the time.
_ADVANCE_POSITION = (
    f'UPDATE "{JournalPosition._meta.db_table}" SET "position" = %s, "updated_at" = CURRENT_TIMESTAMP '
    'WHERE "journal" = %s AND "position" = %s'
)


class PositionConflict(Exception):
    """The stored position differs from this process's, for example because another process adopted the journal."""


def next_batch(records: Iterable[Record]) -> list[Record]:
    """The first of these records, as many as one statement stores."""
    batch, size = [], 0
    for record in in_slices(records):
        batch.append(record)
        size += len(record.payload)
        if len(batch) >= BATCH_RECORDS or size > BATCH_BYTES:
            break
    return batch


def stored_position(name: str) -> int:
    """The offset in a segment up to which its records are in the database."""
    return JournalPosition.objects.filter(journal=name).values_list("position", flat=True).first() or 0


def store_batch(name: str, start: int, batch: list[Record], root: Path) -> None:
    """Store a batch. Records that the database refuses, while it accepts others, go to the file of rejected records.

    A refused batch is split in halves until its bad records are found. Raises DatabaseError and OSError.
    """
    if _try_to_store(name, start, batch):
        return
    if len(batch) == 1:
        _reject(root, batch[0])
        with transaction.atomic():
            _advance_position(name, start, batch[0].end)
        return
    middle = len(batch) // 2
    store_batch(name, start, batch[:middle], root)
    store_batch(name, batch[middle - 1].end, batch[middle:], root)


def database_accepts(size: int) -> bool:
    """Whether the database accepts a valid entry of so many bytes; it is rolled back."""
    entry = empty_log_entry() | {"timestamp": timezone.now(), "payload": "x" * size}
    try:
        with transaction.atomic():
            insert_log_entries([to_record(entry)])
            transaction.set_rollback(True)
    except DatabaseError:
        return False
    return True


def _reject(root: Path, record: Record) -> None:
    """Append a refused record to the file of rejected records, for operators. Raises OSError if nothing was written."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (root / REJECTED_FILE).open("ab", buffering=0) as file:
        before, line = file.tell(), record.payload + b"\n"
        if file.write(line) < len(line):
            file.truncate(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.name)
    log.error("The database refused a log entry. The entry is kept in %s.", root / REJECTED_FILE)


def _try_to_store(name: str, start: int, batch: list[Record]) -> bool:
    """Store a batch; returns False if its content is refused. Raises DatabaseError if every entry is refused."""
    for _ in range(MAX_TRIES if len(batch) == 1 else 1):  # a lock may have been in the way
        try:
            _store_once(name, start, batch)
            return True
        except (DataError, IntegrityError, ValueError):
            return False
        except DatabaseError as error:  # of any kind: SQLite raises OperationalError for bad data too
            # A database whose disk is full takes one entry, into a page that it has, and not the next one.
            if is_state_of_database(error) or not database_accepts(max(len(record.payload) for record in batch)):
                raise
    return False


def _store_once(name: str, start: int, batch: list[Record]) -> None:
    """Store a batch and the new position in one transaction."""
    with transaction.atomic():
        _advance_position(name, start, batch[-1].end)
        entries = [record.payload for record in batch if record.kind in (END, EVENT)]
        insert_log_entries(entries)
        insert_cache_entries([record.payload for record in batch if record.kind == CACHED])
        insert_owners([record.payload for record in batch if record.kind == OWNED])
        insert_samples([record.payload for record in batch if record.kind == SAMPLED])
        # Not those of messages: the message about a request's error has the request's cache status.
        missing = count_hits([record.payload for record in batch if record.kind == END])
    pending_hits.add(missing)


def _advance_position(name: str, start: int, end: int) -> None:
    """Move a segment's position from start to end. Raises PositionConflict if another process has moved it."""
    if start == 0:
        moved = JournalPosition.objects.get_or_create(journal=name, defaults={"position": end})[1]
    else:
        with connection.cursor() as cursor:
            cursor.execute(_ADVANCE_POSITION, [end, name, start])
            moved = cursor.rowcount
    if not moved:
        raise PositionConflict(name)
