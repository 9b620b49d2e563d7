"""Bulk inserts: the database parses the JSON records and aggregates them, in one statement.

An insert of one entry through the ORM takes about as much CPU as a whole request.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.db import connection
from django.db.models import Max
from django.utils import timezone
from psycopg.types.json import Json

from telemetry.guardrails.rollup import have_guardrails, insert_counts, log_rows
from telemetry.journal.records import CACHE_COLUMNS, LOG_COLUMNS, OWNER_COLUMNS, SAMPLE_COLUMNS
from telemetry.models import CacheEntry, GuardrailSample, KeptState, LogEntry
from telemetry.usage import rollups, tags

LOG_TABLE, CACHE_TABLE = LogEntry._meta.db_table, CacheEntry._meta.db_table
SAMPLE_TABLE = GuardrailSample._meta.db_table
OWNER_TABLE = KeptState._meta.db_table
# Columns have a fixed order, and no column before these is an object. So the first match is the column, not a text of
# a client.
STATUS_FIELD, HIT_PREFIX = b'"cache_status":"', b'"cache_status":"HIT","cache_hash":"'
CACHE_PREFIX = b'{"request_hash":"'
# A new answer to the same request replaces the old one and resets its hits.
_ON_CONFLICT_REPLACE = "ON CONFLICT (request_hash) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in CACHE_COLUMNS if column != "request_hash"
)
# The owner of an id never changes.
_ON_CONFLICT_KEEP = "ON CONFLICT (digest) DO NOTHING"
# SQL text: the ORM would compile the query for each answer, which takes longer than the query.
_ADD_HITS = f'UPDATE "{CACHE_TABLE}" SET "hits" = "hits" + %s, "last_hit_at" = %s WHERE "request_hash" = %s'


def insert_log_entries(records: Sequence[bytes]) -> None:
    """Store log entries in their order and add them to the hourly usage, and to the counts of guardrails that ran."""
    if not records:
        return
    has_overflow, has_guardrails = tags.admit_tags(records), have_guardrails(records)
    with _cursor() as cursor:
        if connection.vendor == "postgresql":
            statement = _insert_and_aggregate(has_overflow=has_overflow, has_guardrails=has_guardrails)
            cursor.execute(statement, [_json_array(records)])
            return
        last = LogEntry.objects.aggregate(last=Max("id", default=0))["last"]
        cursor.execute(_insert_sql(LOG_TABLE, LOG_COLUMNS), [_json_array(records)])
        cursor.execute(rollups.aggregate_insert(rollups.log_rows("id > %s", has_overflow=has_overflow)), [last])
        if has_guardrails:
            cursor.execute(insert_counts(log_rows("id > %s")), [last])


def _insert_and_aggregate(*, has_overflow: bool, has_guardrails: bool) -> str:
    """PostgreSQL's statement: RETURNING aggregates the new rows without reading them again."""
    returned = f"entry_type, {rollups.entry_columns(has_overflow=has_overflow)}"
    insertion = _insert_sql(LOG_TABLE, LOG_COLUMNS, f"RETURNING {returned}{', guardrails' if has_guardrails else ''}")
    counting = f", counted AS ({insert_counts('stored')})" if has_guardrails else ""
    aggregation = rollups.aggregate_insert(f"stored WHERE {rollups.IS_WORK_REQUEST}")
    return f"WITH stored AS ({insertion}){counting} {aggregation}"


def insert_cache_entries(records: Sequence[bytes]) -> None:
    """Store cache entries; of several for the same request, the last one.

    They are sorted by hash, because two processes that insert the same rows in different orders could deadlock.
    """
    last = {_until_quote(record, len(CACHE_PREFIX)): record for record in records}
    if last:
        rows = _json_array([last[request_hash] for request_hash in sorted(last)])
        with _cursor() as cursor:
            cursor.execute(_insert_sql(CACHE_TABLE, CACHE_COLUMNS, _ON_CONFLICT_REPLACE), [rows])


def insert_owners(records: Sequence[bytes]) -> None:
    """Store the owners of state at providers; the first owner of an id stays.

    They are sorted by digest, their first column, against deadlocks.
    """
    if records:
        with _cursor() as cursor:
            cursor.execute(_insert_sql(OWNER_TABLE, OWNER_COLUMNS, _ON_CONFLICT_KEEP), [_json_array(sorted(records))])


def insert_samples(records: Sequence[bytes]) -> None:
    """Store what guardrails have matched."""
    if records:
        with _cursor() as cursor:
            cursor.execute(_insert_sql(SAMPLE_TABLE, SAMPLE_COLUMNS), [_json_array(records)])


def count_hits(records: Sequence[bytes]) -> dict[str, int]:
    """Add the hits among these log entries to their cache entries; returns the hits whose entry does not exist."""
    hits = Counter(map(_hash_of_hit, records))
    hits.pop("", None)
    return add_hits(hits)


def add_hits(hits: Mapping[str, int]) -> dict[str, int]:
    """Add hits to the cache entries with these hashes; returns the hits whose entry does not exist."""
    if not hits:
        return {}
    now = timezone.now()
    moment = connection.ops.adapt_datetimefield_value(now)
    # Sorted: two replicas that lock rows in different orders could deadlock.
    rows = [(number, moment, request_hash) for request_hash, number in sorted(hits.items())]
    with connection.cursor() as cursor:
        cursor.executemany(_ADD_HITS, rows)
        if cursor.rowcount == len(rows):
            return {}
    # Selected by last_hit_at: an entry that was inserted after the update has none of these hits.
    entries = CacheEntry.objects.filter(request_hash__in=list(hits), last_hit_at=now)
    existing_hashes = set(entries.values_list("request_hash", flat=True))
    return {request_hash: number for request_hash, number in hits.items() if request_hash not in existing_hashes}


def _hash_of_hit(record: bytes) -> str:
    """The hash of the cached answer that was served, or ''. It is read without parsing the whole record."""
    start = record.find(STATUS_FIELD)
    if not record.startswith(HIT_PREFIX, max(start, 0)):
        return ""
    return _until_quote(record, start + len(HIT_PREFIX))


def _until_quote(record: bytes, start: int) -> str:
    """The text from here to the next quotation mark; a hash contains none."""
    return record[start : record.index(b'"', start)].decode()


def _cursor() -> Any:
    """A cursor with Django's error handling that sends the records as a parameter, not inside the SQL text.

    In the text, PostgreSQL would scan and copy a literal of a megabyte.
    """
    if connection.vendor != "postgresql":
        return connection.cursor()
    connection.ensure_connection()
    cursor: Any = psycopg.Cursor(connection.connection)
    return connection.make_debug_cursor(cursor) if connection.queries_logged else connection.make_cursor(cursor)


def _insert_sql(table: str, columns: Sequence[str], ending: str = "") -> str:
    """The INSERT of the rows in a JSON array, which is its only parameter."""
    names = ", ".join(f'"{column}"' for column in columns)
    return _INSERT_SQL[connection.vendor](table, columns, names, ending)


def _postgresql(table: str, columns: Sequence[str], names: str, ending: str) -> str:
    rows = f'json_populate_recordset(NULL::"{table}", %s::json)'
    return f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {rows} {ending}'


def _sqlite(table: str, columns: Sequence[str], names: str, ending: str) -> str:
    values = ", ".join(f"json_extract(value, '$.{column}')" for column in columns)
    # WHERE true: without it SQLite's parser reads ON CONFLICT as a join's ON.
    return f'INSERT INTO "{table}" ({names}) SELECT {values} FROM json_each(%s) WHERE true {ending}'


_INSERT_SQL = {"postgresql": _postgresql, "sqlite": _sqlite}


def _json_array(records: Sequence[bytes]) -> Json | str:
    """The records as one JSON array, as a query parameter; psycopg takes the bytes as they are."""
    if connection.vendor == "postgresql":
        return Json(records, dumps=_join)
    return _join(records).decode()


def _join(records: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(records) + b"]"
