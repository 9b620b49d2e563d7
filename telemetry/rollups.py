"""Usage by the hour, added up by the database out of the log's own rows, so that the two are equal.

One definition serves all: what a batch of entries adds (batches.py), and what the log says of a period
(verification.py). A row holds what some batch added for one hour and one set of dimensions; several rows of the same
are parts of one sum, and tidy() makes one of them. Nothing is ever updated, so that shippers never wait for each other.

Time is in microseconds, because sums of whole numbers are exact. So is money on PostgreSQL; SQLite keeps it as it
keeps all decimals, in floating point, which is good for fifteen digits.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max

from telemetry.models import LATENCY_COLUMNS, LATENCY_MS, LogEntry, UsageHour

LOG, USAGE = LogEntry._meta.db_table, UsageHour._meta.db_table
EVERY_TAG = "*"

WORK = "entry_type = 'WorkRequest'"
BOUGHT, SERVED, COMPLETED = "cache_status <> 'HIT'", "cache_status = 'HIT'", "outcome = 'completed'"
_TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
_ALL_TOKENS = " + ".join(f"coalesce({column}, 0)" for column in _TOKENS)
# What is counted: a condition, or a value and a condition. Everything is a whole number.
_COUNTED = {
    "requests": "TRUE",
    "completed": COMPLETED,
    "denied": "outcome = 'denied'",
    "client_closed": "outcome = 'client_closed'",
    "errors": "outcome NOT IN ('completed', 'denied', 'client_closed')",
    "cache_hits": SERVED,
    "estimated_requests": "usage_estimated",
    "unknown_cost_requests": "cost_status = 'unknown'",
    "first_bytes": f"{COMPLETED} AND first IS NOT NULL",
    **{column: f"latency = {number}" for number, column in enumerate(LATENCY_COLUMNS)},
}
_SUMMED = {
    **{column: (column, BOUGHT) for column in (*_TOKENS, "reasoning_tokens")},
    "saved_tokens": (_ALL_TOKENS, SERVED),
    "cost": ("cost", "cost_status = 'known'"),
    "estimated_cost": ("cost", "cost_status = 'estimated'"),
    "duration_us": ("took", COMPLETED),
    "first_byte_us": ("first", COMPLETED),
}
DIMENSIONS = ("hour", "user_id", "group_ids", "key_id", "provider_id", "model", "tags", "currency")
MEASURES = (*_COUNTED, *_SUMMED)
AT_HOUR = '"merged" IN (TRUE, FALSE) AND "hour" = %s'  # as the index has it
# What an entry tells of itself before it is added up; the rest are columns of the log.
_READ = ("outcome", "cache_status", "cost_status", "usage_estimated", *_TOKENS, "reasoning_tokens")


def columns(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def per_entry() -> str:
    """The columns of a log entry that the sums are made of, each under its own name, in this database's SQL."""
    dialect = _DIALECTS[connection.vendor]
    told = {
        "hour": dialect["hour"],
        "user_id": "user_id",
        "group_ids": "group_ids",
        "key_id": "key_id",
        "provider_id": "provider_id",
        # Names that nobody offers are made up by clients: there is no end of them.
        "model": "CASE WHEN provider_id IS NULL THEN '' ELSE model END",
        "tags": _tags(dialect),
        "currency": "currency",
        "latency": f"CASE WHEN {COMPLETED} THEN {dialect['latency']} END",
        "cost": "cost",
        "took": dialect["whole"].format("duration_ms * 1000"),
        "first": dialect["whole"].format("first_byte_ms * 1000"),
        **{name: name for name in _READ},
    }
    return ", ".join(f'{expression} AS "{name}"' for name, expression in told.items())


def of_log(condition: str) -> str:
    """The rows of the log under a condition, as those columns."""
    return f'(SELECT {per_entry()} FROM "{LOG}" WHERE {WORK} AND {condition}) AS entries'


def added_up(rows: str) -> str:
    """The SELECT of a row for each set of dimensions out of such columns; what adds up to nothing is NULL."""
    counts = {name: f"nullif(count(*) FILTER (WHERE {condition}), 0)" for name, condition in _COUNTED.items()}
    sums = {name: f"sum({value}) FILTER (WHERE {condition})" for name, (value, condition) in _SUMMED.items()}
    told = ", ".join(f'{expression} AS "{name}"' for name, expression in (counts | sums).items())
    groups = columns(DIMENSIONS)
    return f"SELECT {groups}, {told} FROM {rows} GROUP BY {groups}"


def insertion(rows: str) -> str:
    """The INSERT of what such rows add up to."""
    return f'INSERT INTO "{USAGE}" ({columns((*DIMENSIONS, *MEASURES))}) {added_up(rows)}'


def tidy(hour: datetime) -> None:
    """Make one row of all that are about the same, in one hour."""
    groups, sums = columns(DIMENSIONS), ", ".join(f'sum("{name}")' for name in MEASURES)
    merged = f"SELECT {groups}, TRUE, {sums} FROM gone GROUP BY {groups}"
    _replace(hour, f'INSERT INTO "{USAGE}" ({groups}, "merged", {columns(MEASURES)}) {merged}')


def make_anew(hour: datetime) -> None:
    """Make the rows of one hour out of the log, whatever they were."""
    entries = of_log('"timestamp" >= %s AND "timestamp" < %s')
    _replace(hour, insertion(entries), moment(hour), moment(hour + timedelta(hours=1)))


def full_hour(moment: datetime) -> datetime:
    """The hour that a moment is in."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def moment(value: datetime) -> Any:
    """A moment as a parameter of plain SQL."""
    return connection.ops.adapt_datetimefield_value(value)


def _replace(hour: datetime, insert: str, *parameters: Any) -> None:
    """Put what a statement inserts in the place of an hour's rows, which it can read as `gone`."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One statement, and so one moment: what is added meanwhile is neither read nor removed.
            gone = f'DELETE FROM "{USAGE}" WHERE {AT_HOUR} RETURNING *'
            cursor.execute(f"WITH gone AS ({gone}) {insert}", [moment(hour), *parameters])
            return
        last = UsageHour.objects.aggregate(last=Max("id", default=0))["last"]
        gone = f'SELECT * FROM "{USAGE}" WHERE {AT_HOUR}'
        cursor.execute(f"WITH gone AS ({gone}) {insert}", [moment(hour), *parameters])
        UsageHour.objects.filter(hour=hour, id__lte=last).delete()


def _tags(dialect: dict[str, str]) -> str:
    """The tags that are added up: all, or those that the setting names."""
    names = settings.GATEWAY_STATS_TAGS
    if names == [EVERY_TAG]:
        return "tags"
    listed = ", ".join("'" + name.replace("'", "''").replace("%", "%%") + "'" for name in names) or "NULL"
    return dialect["tags"].format(listed)


def _bucket(bounds: Sequence[int]) -> str:
    cases = " ".join(f"WHEN duration_ms < {bound} THEN {number}" for number, bound in enumerate(bounds))
    return f"CASE {cases} ELSE {len(bounds)} END"


_DIALECTS = {
    "postgresql": {
        "hour": "date_trunc('hour', \"timestamp\", 'UTC')",
        "whole": "({})::bigint",
        "latency": f"width_bucket(duration_ms, ARRAY{list(map(float, LATENCY_MS))})",
        "tags": "(SELECT coalesce(jsonb_object_agg(key, value), '{{}}') FROM jsonb_each(tags) WHERE key IN ({}))",
    },
    "sqlite": {
        "hour": "substr(\"timestamp\", 1, 13) || ':00:00'",
        "whole": "CAST(round({}) AS INTEGER)",
        "latency": _bucket(LATENCY_MS),
        "tags": "(SELECT json_group_object(key, value) FROM json_each(tags) WHERE key IN ({}))",
    },
}
