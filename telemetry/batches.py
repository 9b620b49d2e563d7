"""Stores many entries with one statement: the database itself takes the JSON records apart, and adds them up.

Row by row through the ORM costs the gateway's processes about as much CPU as a whole request does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.db import connection
from django.db.models import Max
from django.utils import timezone
from psycopg.types.json import Json

from telemetry import rollups
from telemetry.models import CacheEntry, LogEntry
from telemetry.records import CACHE_COLUMNS, LOG_COLUMNS

LOG, CACHE = LogEntry._meta.db_table, CacheEntry._meta.db_table
# The columns stand in their order, and none before these is an object: the first such name is not a client's.
STATUS, HIT = b'"cache_status":"', b'"cache_status":"HIT","cache_hash":"'
STORED = b'{"request_hash":"'
# A new answer to the same request replaces the old one, and its hits begin anew.
_REPLACE = "ON CONFLICT (request_hash) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in CACHE_COLUMNS if column != "request_hash"
)
# As text: the ORM puts it together anew for each answer that was hit, and takes longer than the database then does.
_COUNT = f'UPDATE "{CACHE}" SET "hits" = "hits" + %s, "last_hit_at" = %s WHERE "request_hash" = %s'


def insert_log_entries(records: Sequence[bytes]) -> None:
    """Store log entries, in their order, and add them to the usage of their hours."""
    if not records:
        return
    with _cursor() as cursor:
        if connection.vendor == "postgresql":
            # The rows come back as they are stored: in one statement, and without being read again.
            stored = _statement(LOG, LOG_COLUMNS, f"RETURNING entry_type, {rollups.per_entry()}")
            added = rollups.insertion(f"stored WHERE {rollups.WORK}")
            cursor.execute(f"WITH stored AS ({stored}) {added}", [_array(records)])
            return
        last = LogEntry.objects.aggregate(last=Max("id", default=0))["last"]
        cursor.execute(_statement(LOG, LOG_COLUMNS), [_array(records)])
        cursor.execute(rollups.insertion(rollups.of_log("id > %s")), [last])


def insert_cache_entries(records: Sequence[bytes]) -> None:
    """Store cache entries; of several for one request the last."""
    last = {_quoted(record, len(STORED)): record for record in records}
    if last:
        with _cursor() as cursor:
            cursor.execute(_statement(CACHE, CACHE_COLUMNS, _REPLACE), [_array(list(last.values()))])


def count_hits(records: Sequence[bytes]) -> dict[str, int]:
    """Add the hits among these log entries to the cache entries that were hit; those of entries that are not there."""
    hits = Counter(map(_hash_of_hit, records))
    hits.pop("", None)
    return add_hits(hits)


def add_hits(hits: Mapping[str, int]) -> dict[str, int]:
    """Add so many to the hits of the cache entries with these hashes; those of entries that are not there."""
    if not hits:
        return {}
    now = timezone.now()
    moment = connection.ops.adapt_datetimefield_value(now)
    # In one order everywhere: otherwise two replicas could wait for each other's rows.
    rows = [(number, moment, request_hash) for request_hash, number in sorted(hits.items())]
    with connection.cursor() as cursor:
        cursor.executemany(_COUNT, rows)
        if cursor.rowcount == len(rows):
            return {}
    # By the moment: an entry that has come since is there, and has none of these.
    counted = CacheEntry.objects.filter(request_hash__in=list(hits), last_hit_at=now)
    there = set(counted.values_list("request_hash", flat=True))
    return {request_hash: number for request_hash, number in hits.items() if request_hash not in there}


def _hash_of_hit(record: bytes) -> str:
    """The hash of the stored answer that was served, '' where none was; without reading all of the record."""
    start = record.find(STATUS)
    if not record.startswith(HIT, max(start, 0)):
        return ""
    return _quoted(record, start + len(HIT))


def _quoted(record: bytes, start: int) -> str:
    """What stands from here to the next quotation mark; a hash has none in it."""
    return record[start : record.index(b'"', start)].decode()


def _cursor() -> Any:
    """A cursor of Django's that sends the records beside the statement, and not as a part of it.

    PostgreSQL would have to find the end of a megabyte of text, and copy it from one tree of the statement to the next:
    a sixth of all that storing a batch costs.
    """
    if connection.vendor != "postgresql":
        return connection.cursor()
    connection.ensure_connection()
    cursor = psycopg.Cursor(connection.connection)
    return connection.make_debug_cursor(cursor) if connection.queries_logged else connection.make_cursor(cursor)


def _statement(table: str, columns: Sequence[str], ending: str = "") -> str:
    """The INSERT of a JSON array of rows, its one parameter."""
    names = ", ".join(f'"{column}"' for column in columns)
    return _STATEMENTS[connection.vendor](table, columns, names, ending)


def _postgresql(table: str, columns: Sequence[str], names: str, ending: str) -> str:
    rows = f'json_populate_recordset(NULL::"{table}", %s::json)'
    return f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {rows} {ending}'


def _sqlite(table: str, columns: Sequence[str], names: str, ending: str) -> str:
    values = ", ".join(f"json_extract(value, '$.{column}')" for column in columns)
    # WHERE true: without it the parser takes ON CONFLICT for a join's ON.
    return f'INSERT INTO "{table}" ({names}) SELECT {values} FROM json_each(%s) WHERE true {ending}'


_STATEMENTS = {"postgresql": _postgresql, "sqlite": _sqlite}


def _array(records: Sequence[bytes]) -> Any:
    """The records as one JSON array, a parameter; PostgreSQL's driver takes bytes as they are."""
    if connection.vendor == "postgresql":
        return Json(records, dumps=_joined)
    return _joined(records).decode()


def _joined(records: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(records) + b"]"
