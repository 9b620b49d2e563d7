"""Usage by hour and by day, aggregated by the database from the log's own rows, so that log and usage agree.

The same SQL aggregates a batch of new entries (batches.py) and a period of the log (verification.py). A row is the sum
of one batch for one hour and set of dimensions. merge_hour() merges rows of the same hour and dimensions. Rows are
inserted, never updated, so that shippers never wait for each other.

merge_hour() also adds the rows to the ROLLUPS: to days, and to hours and days of models, in which all callers are added
up. A rollup is the sum of merged hours. A month is read from days, and from the hours that are not merged yet.

Durations are in microseconds, because sums of integers are exact. Money is exact on PostgreSQL; SQLite stores decimals
as floating point, which is exact to fifteen digits.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from gateway_project.errors import LIMIT_ERROR_NAMES
from providers.models import Model, Provider
from telemetry.attempts import ATTEMPT_FIELDS, BLAMELESS
from telemetry.models import LogEntry, ModelUsageDay, ModelUsageHour, TagValue, UsageDay, UsageHour
from telemetry.usage.dialects import dialect_of
from telemetry.usage.models import LATENCY_COLUMNS
from telemetry.usage.tags import ALL_TAGS, have_overflowed

LOG, USAGE = (model._meta.db_table for model in (LogEntry, UsageHour))
_TAG_VALUES = TagValue._meta.db_table
_MODELS, _PROVIDERS = (f'"{model._meta.db_table}"' for model in (Model, Provider))

IS_WORK_REQUEST = "entry_type = 'WorkRequest'"
FROM_PROVIDER, FROM_CACHE, COMPLETED = "cache_status <> 'HIT'", "cache_status = 'HIT'", "outcome = 'completed'"
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
_ALL_TOKENS = " + ".join(f"coalesce({column}, 0)" for column in TOKENS)
# A request that a limit refused uses nothing of a quota.
_LIMIT_ERRORS_SQL = ", ".join(f"'{name}'" for name in LIMIT_ERROR_NAMES)
# Whose attempts are all the entry's own provider's and none of which failed; others are counted one by one.
IS_PLAIN = "failed_attempts IS NULL AND asked_before IS NULL"
LIMITED = f"exception IN ({_LIMIT_ERRORS_SQL})"
# Measures that count entries, each with its condition, and measures that sum an integer expression.
_COUNT_CONDITIONS = {
    "requests": "TRUE",
    "completed": COMPLETED,
    "denied": "outcome IN ('denied', 'blocked', 'revoked')",
    "client_closed": "outcome = 'client_closed'",
    "errors": "outcome NOT IN ('completed', 'denied', 'blocked', 'revoked', 'client_closed')",
    "cache_hits": FROM_CACHE,
    "estimated_requests": "usage_estimated",
    "unknown_cost_requests": "cost_status = 'unknown'",
    "unpriced_requests": f"cost_status = 'unknown' AND {COMPLETED}",
    "first_bytes": f"{COMPLETED} AND first IS NOT NULL",
    "limited": LIMITED,
    "asked": f"attempts > others_asked AND {FROM_PROVIDER} AND NOT {LIMITED}",
    "failed_attempts": "FALSE",  # counted by _attempts()
    **{column: f"latency = {number}" for number, column in enumerate(LATENCY_COLUMNS)},
}
_SUM_EXPRESSIONS = {
    **{column: (column, FROM_PROVIDER) for column in (*TOKENS, "reasoning_tokens")},
    "saved_tokens": (_ALL_TOKENS, FROM_CACHE),
    "attempts": ("attempts", IS_PLAIN),
    "unpriced_tokens": (_ALL_TOKENS, f"cost_status = 'unknown' AND {FROM_PROVIDER}"),
    "cost": ("cost", "cost_status = 'known'"),
    "estimated_cost": ("cost", "cost_status = 'estimated'"),
    "saved_cost": ("saved_cost", FROM_CACHE),
    "duration_us": ("took", COMPLETED),
    "first_byte_us": ("first", COMPLETED),
}
MONEY = ("cost", "estimated_cost", "saved_cost")
# The total cost of requests, known or estimated.
SUM_OF_COSTS = 'coalesce(sum("cost"), 0) + coalesce(sum("estimated_cost"), 0)'
DIMENSIONS = ("hour", "user_id", "group_ids", "key_id", "provider_id", "model", "alias", "tags", "currency")
MODEL_DIMENSIONS = ("hour", "provider_id", "model", "alias", "currency")
MEASURES = (*_COUNT_CONDITIONS, *_SUM_EXPRESSIONS)
ANY_MERGED = '"merged" IN (TRUE, FALSE)'  # makes databases use the indexes on (merged, hour)
HOUR_BETWEEN = '"hour" >= %s AND "hour" < %s'
HOUR, DAY, MICROSECOND = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)
# Columns of the log that the aggregation uses as they are.
_PLAIN_COLUMNS = (
    "outcome",
    "exception",
    "attempts",
    "cache_status",
    "cost_status",
    "usage_estimated",
    *TOKENS,
    "reasoning_tokens",
    "saved_cost",
    "failed_attempts",
    "asked_before",
    "provider_calls",
)


class Rollup(NamedTuple):
    """A table with sums of merged hours by these dimensions; with `has_days` its column `hour` is the day."""

    table: str
    dimensions: tuple[str, ...]
    has_days: bool


DAYS = Rollup(UsageDay._meta.db_table, DIMENSIONS, has_days=True)
MODEL_HOURS = Rollup(ModelUsageHour._meta.db_table, MODEL_DIMENSIONS, has_days=False)
MODEL_DAYS = Rollup(ModelUsageDay._meta.db_table, MODEL_DIMENSIONS, has_days=True)
ROLLUPS = (DAYS, MODEL_HOURS, MODEL_DAYS)
_HOURS = Rollup(USAGE, DIMENSIONS, has_days=False)


def columns(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def sums(names: Sequence[str]) -> str:
    """The sum of each measure; of integers as an integer, with which PostgreSQL and Python count faster."""
    return ", ".join(f'{_sum_of(name)} AS "{name}"' for name in names)


def _sum_of(name: str) -> str:
    return f'sum("{name}")' if name in MONEY else f'CAST(sum("{name}") AS bigint)'


_SUMS = columns((*DIMENSIONS, *MEASURES))


def entry_columns(*, has_overflow: bool = False) -> str:
    """The SELECT list of the columns that the aggregation needs from a log entry, in this database's SQL.

    `has_overflow`: some tags may have values that count as OTHER (tags.py).
    """
    dialect = dialect_of(connection)
    selected = {
        "hour": dialect["hour"],
        "user_id": "user_id",
        "group_ids": "group_ids",
        "key_id": "key_id",
        "provider_id": "provider_id",
        # Without a provider the name is the client's: there may be any number of them.
        "model": "CASE WHEN provider_id IS NULL THEN '' ELSE coalesce(served_model, model) END",
        "alias": "CASE WHEN provider_id IS NOT NULL THEN alias END",
        "tags": _tags_expression(dialect, has_overflow=has_overflow),
        "currency": "currency",
        "latency": f"CASE WHEN {COMPLETED} THEN {dialect['latency']} END",
        "cost": "cost",
        "took": dialect["whole"].format("duration_ms * 1000"),
        "first": dialect["whole"].format("first_byte_ms * 1000"),
        "others_asked": f"coalesce({dialect['length']}, 0)",
        **{name: name for name in _PLAIN_COLUMNS},
    }
    return ", ".join(f'{expression} AS "{name}"' for name, expression in selected.items())


def log_rows(condition: str, *, has_overflow: bool = False) -> str:
    """The log entries of work requests under a condition, as a subquery with the columns of entry_columns()."""
    selected = entry_columns(has_overflow=has_overflow)
    return f'(SELECT {selected} FROM "{LOG}" WHERE {IS_WORK_REQUEST} AND {condition}) AS entries'


def aggregation_sql(rows: str) -> str:
    """The SELECT that aggregates such rows by the dimensions; sums of nothing are NULL.

    Providers that failed before the one of an entry have rows of their own, with the measure `asked` only. So do
    attempts of which one failed or was at another provider.
    """
    counts = {name: f"nullif(count(*) FILTER (WHERE {condition}), 0)" for name, condition in _COUNT_CONDITIONS.items()}
    sums = {name: f"sum({value}) FILTER (WHERE {condition})" for name, (value, condition) in _SUM_EXPRESSIONS.items()}
    selected = ", ".join(f'{expression} AS "{name}"' for name, expression in (counts | sums).items())
    groups, dialect = columns(DIMENSIONS), dialect_of(connection)
    other_groups = groups.replace('"provider_id"', dialect["other"])
    only_asked = ", ".join("count(*)" if name == "asked" else "NULL" for name in MEASURES)
    return (
        f"SELECT * FROM (WITH entries AS (SELECT * FROM {rows})"
        f" SELECT {groups}, {selected} FROM entries GROUP BY {groups} UNION ALL"
        f" SELECT {other_groups}, {only_asked} FROM entries, {dialect['others']} GROUP BY {other_groups} UNION ALL"
        f" {_attempts(groups, dialect)}) AS added"
    )


def aggregate_insert(rows: str) -> str:
    """The INSERT of the aggregation of such rows into the hourly usage."""
    return f'INSERT INTO "{USAGE}" ({_SUMS}) {aggregation_sql(rows)}'


def merge_hour(hour: datetime) -> None:
    """Merge the rows of one hour into one for each set of dimensions, and add the newly merged ones to the rollups."""
    inserts = [_sum_insert(rollup, "gone", "NOT merged", merged=False) for rollup in ROLLUPS]
    replace_rows(USAGE, hour, hour + HOUR, *inserts, _sum_insert(_HOURS, "gone"))


def merge_day(day: datetime) -> None:
    """Merge the rows of one day in all rollups into one for each set of dimensions."""
    for rollup in ROLLUPS:
        replace_rows(rollup.table, day, day + DAY, _sum_insert(rollup, "gone"))


def rebuild_hour(hour: datetime) -> None:
    """Replace the rows of one hour with ones aggregated from the log, and rebuild its day."""
    entries = log_rows('"timestamp" >= %s AND "timestamp" < %s', has_overflow=have_overflowed())
    bounds = hour, hour + HOUR
    with transaction.atomic():
        replace_rows(USAGE, *bounds, aggregate_insert(entries), parameters=[*map(sql_timestamp, bounds)])
        rebuild_day(floor_day(hour))


def rebuild_day(day: datetime) -> None:
    """Replace the rows of one day in all rollups with sums of its merged hours: one for each set of dimensions."""
    bounds = day, day + DAY
    with transaction.atomic():
        for rollup, source in ((DAYS, USAGE), (MODEL_HOURS, USAGE), (MODEL_DAYS, MODEL_HOURS.table)):
            hours = f'(SELECT * FROM "{source}" WHERE "merged" = TRUE AND {HOUR_BETWEEN}) AS hours'
            replace_rows(rollup.table, *bounds, _sum_insert(rollup, hours), parameters=[*map(sql_timestamp, bounds)])


def differing_day(since: datetime) -> datetime | None:
    """A day from `since` on that has other requests or attempts in the days of models than in the days of all usage."""
    measures = ("requests", "attempts")
    days = f'SELECT "hour", {columns(measures)} FROM "{DAYS.table}" WHERE {ANY_MERGED} AND "hour" >= %s'
    negative = ", ".join(f'-"{name}"' for name in measures)
    model_days = f'SELECT "hour", {negative} FROM "{MODEL_DAYS.table}" WHERE {ANY_MERGED} AND "hour" >= %s'
    differ = " OR ".join(f'coalesce(sum("{name}"), 0) <> 0' for name in measures)
    query = f'SELECT "hour" FROM ({days} UNION ALL {model_days}) AS both_sides GROUP BY "hour" HAVING {differ} LIMIT 1'
    with connection.cursor() as cursor:
        cursor.execute(query, [sql_timestamp(since)] * 2)
        row = cursor.fetchone()
    return row and parse_timestamp(row[0])


def usage_rows(
    start: datetime, end: datetime, *, by_hour: bool = False, dimensions: Iterable[str] = DIMENSIONS
) -> tuple[str, list[Any]]:
    """All usage rows from one full hour to another, as a subquery with its parameters.

    Full days are read from a table of days, unless the rows are needed `by_hour`. `dimensions` are those that the rows
    must have: if they are among MODEL_DIMENSIONS, the rows have these alone.
    """
    is_of_models = set(dimensions) <= set(MODEL_DIMENSIONS)
    hours, days = (MODEL_HOURS.table, MODEL_DAYS.table) if is_of_models else (USAGE, DAYS.table)
    selected = columns((*(MODEL_DIMENSIONS if is_of_models else DIMENSIONS), *MEASURES))
    first, last = ceil_day(start), floor_day(end)
    spans = [(hours, start, end)]
    if first < last and not by_hour:
        spans = [(days, first, last), (hours, start, first), (hours, last, end)]
    parts = [(table, ANY_MERGED, begin, until) for table, begin, until in spans]
    # What is not merged yet is in no rollup.
    parts += [(USAGE, '"merged" = FALSE', begin, until) for table, begin, until in spans if table != USAGE]
    selects = [f'SELECT {selected} FROM "{table}" WHERE {which} AND {HOUR_BETWEEN}' for table, which, *_ in parts]
    bounds = [sql_timestamp(bound) for *_, begin, until in parts for bound in (begin, until)]
    return f"({' UNION ALL '.join(selects)}) AS used", bounds


def with_served_models(usage: str, dimensions: Sequence[str], measures: Sequence[str], condition: str = "TRUE") -> str:
    """The rows of usage_rows(), with the provider's model name if clients asked for `provider/model`.

    They have these dimensions, provider and model, and the measures, and are added up before the names are looked for.
    A model whose own name begins like that keeps its name. If the provider was deleted or renamed, the name stays as
    clients sent it.
    """
    groups = dict.fromkeys((*dimensions, "provider_id", "model"))
    summed = (
        f"SELECT {columns([*groups])}, {sums(measures)} FROM {usage} WHERE {condition} GROUP BY {columns([*groups])}"
    )
    others = ", ".join(f'used."{name}"' for name in (*groups, *measures) if name != "model")
    return (
        f"(SELECT {others}, CASE WHEN literally.name IS NULL"
        " AND substr(used.model, 1, length(provider.name) + 1) = provider.name || '/'"
        f' THEN substr(used.model, length(provider.name) + 2) ELSE used.model END AS "model" FROM ({summed}) AS used'
        f" LEFT JOIN {_PROVIDERS} AS provider ON provider.id = used.provider_id"
        f" LEFT JOIN {_MODELS} AS literally ON literally.provider_id = provider.id AND literally.name = used.model"
        ") AS used"
    )


def floor_hour(moment: datetime) -> datetime:
    """The beginning of the hour that a moment is in (UTC)."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def floor_day(moment: datetime) -> datetime:
    """The beginning of the day that a moment is in (UTC)."""
    return floor_hour(moment).replace(hour=0)


def ceil_hour(moment: datetime) -> datetime:
    """The first full hour that does not begin before a moment."""
    return floor_hour(moment + HOUR - MICROSECOND)


def ceil_day(moment: datetime) -> datetime:
    """The first day (UTC) that does not begin before a moment."""
    return floor_day(moment + DAY - MICROSECOND)


def hour_expression() -> str:
    """The hour of a log entry, in this database's SQL."""
    return dialect_of(connection)["hour"]


def day_expression() -> str:
    """The day of a row's hour, in this database's SQL."""
    return dialect_of(connection)["day"]


def sql_timestamp(value: datetime) -> Any:
    """A moment as a parameter of plain SQL."""
    return connection.ops.adapt_datetimefield_value(value)


def parse_timestamp(value: object) -> datetime:
    """A moment as plain SQL returns it."""
    read = datetime.fromisoformat(str(value))
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _attempts(groups: str, dialect: dict[str, str]) -> str:
    """The SELECT that counts the attempts in the lists of entries, each for its own provider and model."""
    value = {name: dialect["call"].format(place) for place, name in enumerate(ATTEMPT_FIELDS)}
    provider_id = dialect["whole"].format(value["provider_id"])
    groups = groups.replace('"provider_id"', provider_id).replace('"model"', value["model"])
    has_failed = f"{value['cause']} NOT IN ({', '.join(map(repr, BLAMELESS))})"
    counts = {"attempts": "count(*)", "failed_attempts": f"nullif(count(*) FILTER (WHERE {has_failed}), 0)"}
    measures = ", ".join(counts.get(name, "NULL") for name in MEASURES)
    return f"SELECT {groups}, {measures} FROM entries, {dialect['calls']} WHERE NOT ({IS_PLAIN}) GROUP BY {groups}"


def _sum_insert(to: Rollup, rows: str, condition: str = "TRUE", *, merged: bool = True) -> str:
    """The INSERT of the sums of usage rows, one for each set of dimensions."""
    groups = f"{rollup_hour(to)}, {columns(to.dimensions[1:])}"
    sums = ", ".join(f'sum("{name}")' for name in MEASURES)
    return (
        f'INSERT INTO "{to.table}" ({columns((*to.dimensions, *MEASURES))}, "merged")'
        f" SELECT {groups}, {sums}, {merged} FROM {rows} WHERE {condition} GROUP BY {groups}"
    )


def rollup_hour(rollup: Rollup) -> str:
    """The SQL for the column `hour` of a rollup, from a row of an hour: that hour, or its day."""
    return day_expression() if rollup.has_days else '"hour"'


def replace_rows(table: str, start: datetime, end: datetime, *inserts: str, parameters: Sequence[Any] = ()) -> None:
    """Replace the rows of some time with what the statements insert; these read the old rows as `gone`.

    The parameters are those of the last statement.
    """
    bounds = [sql_timestamp(start), sql_timestamp(end)]
    of_this_time = f"{ANY_MERGED} AND {HOUR_BETWEEN}"
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One transaction at a time: a second one that waits for deleted rows would not see the new rows.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gateway usage'))")
            # One statement reads one snapshot: rows inserted meanwhile are neither read nor deleted.
            old_rows = f'WITH gone AS (DELETE FROM "{table}" WHERE {of_this_time} RETURNING *)'
            *others, last = inserts
            also = "".join(f", also_{number} AS ({other})" for number, other in enumerate(others))
            cursor.execute(f"{old_rows}{also} {last}", [*bounds, *parameters])
            return
        newest_row = f'SELECT coalesce(max("id"), 0) FROM "{table}"'
        cursor.execute(newest_row)
        (newest,) = cursor.fetchone()
        old_rows = f'WITH gone AS (SELECT * FROM "{table}" WHERE {of_this_time})'
        for insert in inserts:
            own = parameters if insert is inserts[-1] else ()
            cursor.execute(f"{old_rows} {insert}", [*bounds, *own])
        delete = f'DELETE FROM "{table}" WHERE {of_this_time} AND "id" <= %s'
        cursor.execute(delete, [*bounds, newest])


def _tags_expression(dialect: dict[str, str], *, has_overflow: bool) -> str:
    """The tags by which usage is aggregated: all, or those in GATEWAY_STATS_TAGS; values without room are OTHER."""
    names = settings.GATEWAY_STATS_TAGS
    if names == [ALL_TAGS] and not has_overflow:
        return "tags"
    listed = ", ".join("'" + name.replace("'", "''").replace("%", "%%") + "'" for name in names) or "NULL"
    condition = "TRUE" if names == [ALL_TAGS] else f"key IN ({listed})"
    if not has_overflow:
        return dialect["tags"].format("value", condition)
    of_name = f'SELECT 1 FROM "{_TAG_VALUES}" AS counted WHERE counted.name = tag.key'
    value = f"CASE WHEN EXISTS ({of_name} AND counted.value = {dialect['text']}) THEN tag.value"
    return dialect["tags"].format(f"{value} ELSE {dialect['surplus']} END", f"{condition} AND EXISTS ({of_name})")
