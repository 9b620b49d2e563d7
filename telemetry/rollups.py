"""Usage by the hour, added up by the database out of the log's own rows, so that the two are equal.

One definition serves all: what a batch of entries adds (batches.py), and what the log says of a period
(verification.py). A row holds what some batch added for one hour and one set of dimensions; several rows of the same
are parts of one sum, and tidy() makes one of them. Nothing is ever updated, so that shippers never wait for each other.

What tidy() makes one of is added to the usage of the day, in the same way: a day holds what its merged rows of hours
come to, always. So a month is read from days, and from the rows of hours that are not merged yet.

Time is in microseconds, because sums of whole numbers are exact. So is money on PostgreSQL; SQLite keeps it as it
keeps all decimals, in floating point, which is good for fifteen digits.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from gateway_project.errors import LIMIT_ERROR_NAMES
from providers.models import Model, Provider
from telemetry.models import LATENCY_COLUMNS, LATENCY_MS, LogEntry, UsageDay, UsageHour

LOG, USAGE, DAYS = (model._meta.db_table for model in (LogEntry, UsageHour, UsageDay))
_MODELS, _PROVIDERS = (f'"{model._meta.db_table}"' for model in (Model, Provider))
EVERY_TAG = "*"

WORK = "entry_type = 'WorkRequest'"
BOUGHT, SERVED, COMPLETED = "cache_status <> 'HIT'", "cache_status = 'HIT'", "outcome = 'completed'"
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
_ALL_TOKENS = " + ".join(f"coalesce({column}, 0)" for column in TOKENS)
# A request that a limit refused has used nothing of a quota.
_NAMES = ", ".join(f"'{name}'" for name in LIMIT_ERROR_NAMES)
LIMITED = f"exception IN ({_NAMES})"
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
    "limited": LIMITED,
    "asked": f"attempts > others_asked AND {BOUGHT} AND NOT {LIMITED}",
    **{column: f"latency = {number}" for number, column in enumerate(LATENCY_COLUMNS)},
}
_SUMMED = {
    **{column: (column, BOUGHT) for column in (*TOKENS, "reasoning_tokens")},
    "saved_tokens": (_ALL_TOKENS, SERVED),
    "cost": ("cost", "cost_status = 'known'"),
    "estimated_cost": ("cost", "cost_status = 'estimated'"),
    "saved_cost": ("saved_cost", SERVED),
    "duration_us": ("took", COMPLETED),
    "first_byte_us": ("first", COMPLETED),
}
# What requests cost together, as far as that is known or estimated.
SUM_OF_COSTS = 'coalesce(sum("cost"), 0) + coalesce(sum("estimated_cost"), 0)'
DIMENSIONS = ("hour", "user_id", "group_ids", "key_id", "provider_id", "model", "tags", "currency")
MEASURES = (*_COUNTED, *_SUMMED)
ALL = '"merged" IN (TRUE, FALSE)'  # as the indexes have it
AT_HOUR = f'{ALL} AND "hour" = %s'
WITHIN = '"hour" >= %s AND "hour" < %s'
HOUR, DAY, INSTANT = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)
# What an entry tells of itself before it is added up; the rest are columns of the log.
_READ = (
    "outcome",
    "exception",
    "attempts",
    "cache_status",
    "cost_status",
    "usage_estimated",
    *TOKENS,
    "reasoning_tokens",
    "saved_cost",
)


def columns(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


_SUMS = columns((*DIMENSIONS, *MEASURES))


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
        "others_asked": f"coalesce({dialect['length']}, 0)",
        "asked_before": "asked_before",
        **{name: name for name in _READ},
    }
    return ", ".join(f'{expression} AS "{name}"' for name, expression in told.items())


def of_log(condition: str) -> str:
    """The rows of the log under a condition, as those columns."""
    return f'(SELECT {per_entry()} FROM "{LOG}" WHERE {WORK} AND {condition}) AS entries'


def added_up(rows: str) -> str:
    """The SELECT of a row for each set of dimensions out of such columns; what adds up to nothing is NULL.

    Whoever was asked before the provider of an entry has rows too, of nothing but that.
    """
    counts = {name: f"nullif(count(*) FILTER (WHERE {condition}), 0)" for name, condition in _COUNTED.items()}
    sums = {name: f"sum({value}) FILTER (WHERE {condition})" for name, (value, condition) in _SUMMED.items()}
    told = ", ".join(f'{expression} AS "{name}"' for name, expression in (counts | sums).items())
    groups, dialect = columns(DIMENSIONS), _DIALECTS[connection.vendor]
    of_others = groups.replace('"provider_id"', dialect["other"])
    only_asked = ", ".join("count(*)" if name == "asked" else "NULL" for name in MEASURES)
    return (
        f"SELECT * FROM (WITH entries AS (SELECT * FROM {rows}) SELECT {groups}, {told} FROM entries GROUP BY {groups}"
        f" UNION ALL SELECT {of_others}, {only_asked} FROM entries, {dialect['others']} GROUP BY {of_others}) AS added"
    )


def insertion(rows: str) -> str:
    """The INSERT of what such rows add up to."""
    return f'INSERT INTO "{USAGE}" ({_SUMS}) {added_up(rows)}'


def tidy(hour: datetime) -> None:
    """Make one row of all that are about the same, in one hour; its day has then what was not merged before."""
    of_day = _summed("gone", {"hour": day_of_hour()}, "NOT merged")
    _replace(USAGE, hour, f'INSERT INTO "{DAYS}" ({_SUMS}) {of_day}', _merged(USAGE, "gone"))


def tidy_day(day: datetime) -> None:
    """Make one row of all that are about the same, in the usage of one day."""
    _replace(DAYS, day, _merged(DAYS, "gone"))


def make_anew(hour: datetime) -> None:
    """Make the rows of one hour out of the log, whatever they were."""
    entries = of_log('"timestamp" >= %s AND "timestamp" < %s')
    with transaction.atomic():
        _replace(USAGE, hour, insertion(entries), parameters=[moment(hour), moment(hour + HOUR)])
        make_day_anew(full_day(hour))


def make_day_anew(day: datetime) -> None:
    """Make the rows of one day out of its merged rows of hours, whatever they were."""
    hours = f'(SELECT * FROM "{USAGE}" WHERE "merged" = TRUE AND {WITHIN}) AS hours'
    insert = _merged(DAYS, hours, {"hour": day_of_hour()})
    _replace(DAYS, day, insert, parameters=[moment(day), moment(day + DAY)])


def used(start: datetime, end: datetime, *, by_hour: bool = False) -> tuple[str, list[Any]]:
    """The rows of all usage from one full hour to another, as a subquery with its parameters.

    Full days are rows of days, unless one wants to know the hours.
    """
    first, last = day_not_before(start), full_day(end)
    parts = [(USAGE, ALL, start, end)]
    if first < last and not by_hour:
        days, hours_of_them = (DAYS, ALL, first, last), (USAGE, '"merged" = FALSE', first, last)
        parts = [days, hours_of_them, (USAGE, ALL, start, first), (USAGE, ALL, last, end)]
    selects = [f'SELECT {_SUMS} FROM "{table}" WHERE {which} AND {WITHIN}' for table, which, *_ in parts]
    return f"({' UNION ALL '.join(selects)}) AS used", [moment(bound) for _, _, *bounds in parts for bound in bounds]


def served(used: str) -> str:
    """The rows of used() with the models that were served, where clients had asked for `provider/model`.

    A name that the provider has as it stands (literally) is that model, slash and all. Of providers that are gone, or
    were called otherwise then, names stay as they were asked for.
    """
    others = ", ".join(f'used."{name}"' for name in (*DIMENSIONS, *MEASURES) if name != "model")
    return (
        f"(SELECT {others}, CASE WHEN literally.name IS NULL"
        " AND substr(used.model, 1, length(provider.name) + 1) = provider.name || '/'"
        f' THEN substr(used.model, length(provider.name) + 2) ELSE used.model END AS "model" FROM {used}'
        f" LEFT JOIN {_PROVIDERS} AS provider ON provider.id = used.provider_id"
        f" LEFT JOIN {_MODELS} AS literally ON literally.provider_id = provider.id AND literally.name = used.model"
        ") AS used"
    )


def full_hour(moment: datetime) -> datetime:
    """The hour that a moment is in."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def full_day(moment: datetime) -> datetime:
    """The beginning of the day that a moment is in (UTC)."""
    return full_hour(moment).replace(hour=0)


def hour_not_before(moment: datetime) -> datetime:
    """The first full hour that does not begin before a moment."""
    return full_hour(moment + HOUR - INSTANT)


def day_not_before(moment: datetime) -> datetime:
    """The first day (UTC) that does not begin before a moment."""
    return full_day(moment + DAY - INSTANT)


def day_of_hour() -> str:
    """The day of a row's hour, in this database's SQL."""
    return _DIALECTS[connection.vendor]["day"]


def moment(value: datetime) -> Any:
    """A moment as a parameter of plain SQL."""
    return connection.ops.adapt_datetimefield_value(value)


def read_moment(value: Any) -> datetime:
    """A moment as plain SQL returns it."""
    read = datetime.fromisoformat(str(value))
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _merged(table: str, rows: str, known: dict[str, str] | None = None) -> str:
    """The INSERT of one row of all that are about the same."""
    return f'INSERT INTO "{table}" ({_SUMS}, "merged") SELECT *, TRUE FROM ({_summed(rows, known or {})}) AS summed'


def _summed(rows: str, known: dict[str, str], condition: str = "TRUE") -> str:
    """The SELECT of what rows of usage add up to; `known` says what stands in the place of a dimension."""
    groups = ", ".join(known.get(name, f'"{name}"') for name in DIMENSIONS)
    sums = ", ".join(f'sum("{name}")' for name in MEASURES)
    return f"SELECT {groups}, {sums} FROM {rows} WHERE {condition} GROUP BY {groups}"


def _replace(table: str, hour: datetime, *inserts: str, parameters: Sequence[Any] = ()) -> None:
    """Put what statements insert in the place of the rows of one time, which they can read as `gone`.

    The last one takes the parameters.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One after the other: who waited for rows that are gone would not see those that came in their place.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gateway usage'))")
            # One statement, and so one moment: what is added meanwhile is neither read nor removed.
            gone = f'WITH gone AS (DELETE FROM "{table}" WHERE {AT_HOUR} RETURNING *)'
            *others, last = inserts
            others = "".join(f", also_{number} AS ({other})" for number, other in enumerate(others))
            cursor.execute(f"{gone}{others} {last}", [moment(hour), *parameters])
            return
        cursor.execute(f'SELECT coalesce(max("id"), 0) FROM "{table}"')
        (newest,) = cursor.fetchone()
        gone = f'WITH gone AS (SELECT * FROM "{table}" WHERE {AT_HOUR})'
        for insert in inserts:
            mine = parameters if insert is inserts[-1] else ()
            cursor.execute(f"{gone} {insert}", [moment(hour), *mine])
        cursor.execute(f'DELETE FROM "{table}" WHERE {AT_HOUR} AND "id" <= %s', [moment(hour), newest])


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
        "day": "date_trunc('day', \"hour\", 'UTC')",
        "whole": "({})::bigint",
        "length": "jsonb_array_length(asked_before)",
        "others": "jsonb_array_elements_text(asked_before) AS one(id)",
        "other": "one.id::bigint",
        "latency": f"width_bucket(duration_ms, ARRAY{list(map(float, LATENCY_MS))})",
        "tags": "(SELECT coalesce(jsonb_object_agg(key, value), '{{}}') FROM jsonb_each(tags) WHERE key IN ({}))",
    },
    "sqlite": {
        "hour": "substr(\"timestamp\", 1, 13) || ':00:00'",
        "day": "substr(\"hour\", 1, 10) || ' 00:00:00'",
        "whole": "CAST(round({}) AS INTEGER)",
        "length": "json_array_length(asked_before)",
        "others": "json_each(asked_before) AS one",
        "other": "one.value",
        "latency": _bucket(LATENCY_MS),
        "tags": "(SELECT json_group_object(key, value) FROM json_each(tags) WHERE key IN ({}))",
    },
}
