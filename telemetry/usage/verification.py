"""Compares the hourly usage with the log and the rollups with their hours, and repairs differences."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import Any

from django.db import connection
from django.db.models import Min

from gateway_project.json_types import JsonObject
from telemetry.guardrails import rollup as guardrails
from telemetry.models import LogEntry
from telemetry.retention.deletion import retention_start
from telemetry.usage import rollups
from telemetry.usage.rollups import (
    ANY_MERGED,
    DAY,
    DIMENSIONS,
    HOUR,
    HOUR_BETWEEN,
    MEASURES,
    MODEL_DIMENSIONS,
    USAGE,
    Rollup,
    columns,
)
from telemetry.usage.tags import have_overflowed

MONEY = ("cost", "estimated_cost", "saved_cost")
Rebuilding = tuple[Callable[[datetime], None], datetime]  # and the beginning of what it rebuilds
EMPTY: tuple[object, ...] = (None, "", [], {}, "[]", "{}")


@dataclass(frozen=True, slots=True)
class Difference:
    """Log minus hourly usage of one hour and set of dimensions.

    With `of_rollup` merged hours minus the sums of that table, with `of_guardrail` log minus the counts of guardrails.
    """

    dimensions: JsonObject
    amounts: dict[str, int | Decimal]
    of_rollup: Rollup | None = None
    of_guardrail: bool = False

    @property
    def hour(self) -> datetime:
        """The beginning of the hour or day."""
        return self.dimensions["hour"]

    def __str__(self) -> str:
        is_of_day = self.of_rollup and self.of_rollup.has_days
        when = f"{self.hour:%Y-%m-%d}, all of it" if is_of_day else f"{self.hour:%Y-%m-%d %H}:00"
        if self.of_rollup and self.of_rollup.dimensions == MODEL_DIMENSIONS:
            when += ", sums of models:"
        dimensions = [
            f"{name}={value}" for name, value in self.dimensions.items() if name != "hour" and value not in EMPTY
        ]
        amounts = [f"{name} {amount:+}" for name, amount in self.amounts.items()]
        return f"{when} {' '.join(dimensions)}: {', '.join(amounts)}"


def differences(start: datetime, end: datetime) -> list[Difference]:
    """The differences between log and hours, and between hours and rollups, in full hours; the first hundred of each.

    One statement reads both sides from one snapshot: an entry that arrives meanwhile is in both or in neither.
    """
    return [*_hour_differences(start, end), *_all_rollup_differences(start, end)]


def _hour_differences(start: datetime, end: datetime) -> list[Difference]:
    """Those between the log, and the hours of usage and of guardrails."""
    entries = rollups.log_rows('"timestamp" >= %s AND "timestamp" < %s', has_overflow=have_overflowed())
    hours = _differences(rollups.aggregation_sql(entries), USAGE, start, end)
    counts = guardrails.counting_sql(guardrails.log_rows('"timestamp" >= %s AND "timestamp" < %s'))
    of_guardrails = _differences(counts, guardrails.TABLE, start, end, guardrails.DIMENSIONS, guardrails.MEASURES)
    return [*hours, *(replace(difference, of_guardrail=True) for difference in of_guardrails)]


def _all_rollup_differences(start: datetime, end: datetime) -> list[Difference]:
    return [difference for rollup in rollups.ROLLUPS for difference in _rollup_differences(rollup, start, end)]


def _rollup_differences(rollup: Rollup, start: datetime, end: datetime) -> list[Difference]:
    """Those between merged hours and a rollup, in the full days of a period."""
    others = columns((*rollup.dimensions[1:], *MEASURES))
    selected = f'{rollups.rollup_hour(rollup)} AS "hour", {others}'
    hours = f'SELECT {selected} FROM "{USAGE}" WHERE "merged" = TRUE AND {HOUR_BETWEEN}'
    bounds = rollups.floor_day(start), rollups.ceil_day(end)
    differing = _differences(hours, rollup.table, *bounds, rollup.dimensions)
    return [replace(difference, of_rollup=rollup) for difference in differing]


def _differences(
    truth: str,
    table: str,
    start: datetime,
    end: datetime,
    dimensions: Sequence[str] = DIMENSIONS,
    measures: Sequence[str] = MEASURES,
    limit: int = 100,
) -> list[Difference]:
    """The sums that differ between a SELECT and a table with the same columns."""
    negative = ", ".join(f'-"{name}"' for name in measures)
    rows = f'SELECT {columns(dimensions)}, {negative} FROM "{table}" WHERE {ANY_MERGED} AND {HOUR_BETWEEN}'
    sums = {name: _sum(name) for name in measures}
    differ = " OR ".join(f"{expression} <> 0" for expression in sums.values())
    statement = (
        f"SELECT {columns(dimensions)}, {', '.join(sums.values())} FROM ({truth} UNION ALL {rows}) AS both_sides"
        f' GROUP BY {columns(dimensions)} HAVING {differ} ORDER BY "hour" LIMIT {limit}'
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [rollups.sql_timestamp(start), rollups.sql_timestamp(end)] * 2)
        return [_difference(row, dimensions, measures) for row in cursor.fetchall()]


def full_hours(start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """A period in full hours; by default all hours up to now of which the log still has every entry."""
    if start is None:
        oldest = LogEntry.objects.aggregate(oldest=Min("timestamp"))["oldest"] or now
        limit = retention_start(now)
        start = max(oldest, rollups.ceil_hour(limit)) if limit else oldest
    begin, end = rollups.floor_hour(start), end or now
    return begin, max(begin, rollups.ceil_hour(end))


def days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The period in parts of at most a day, the most that one statement reads."""
    while start < end:
        next_start = min(start + DAY, end)
        yield start, next_start
        start = next_start


def repair_hours(start: datetime, end: datetime, *, allow_fewer: bool = False) -> int:
    """Rebuild the hours that differ from the log and the days whose rollups differ; returns their number.

    Hours of which the log has fewer requests than the usage stay as they are, unless `allow_fewer`: most often their
    entries were deleted.
    """
    if not differences(start, end):
        return 0
    number, hour = 0, start
    while hour < end:
        if allow_fewer or not has_lost_entries(hour):
            number += _rebuild(partial(_hour_differences, hour, hour + HOUR))
        hour += HOUR
    return number + _rebuild(partial(_all_rollup_differences, start, end))


def _rebuild(find: Callable[[], Sequence[Difference]]) -> int:
    """Rebuild what differs until nothing new does: one call may not find all differences."""
    earlier: set[Rebuilding] = set()
    while wrong := set(map(_rebuild_step, find())) - earlier:
        for rebuild, begin in sorted(wrong, key=itemgetter(1)):
            rebuild(begin)
        earlier |= wrong
    return len(earlier)


def has_lost_entries(hour: datetime) -> bool:
    """Whether the log has fewer requests of an hour than its usage."""
    entries = rollups.log_rows('"timestamp" >= %s AND "timestamp" < %s')
    rows = f'SELECT sum("requests") FROM "{USAGE}" WHERE {ANY_MERGED} AND {HOUR_BETWEEN}'
    bounds = [rollups.sql_timestamp(hour), rollups.sql_timestamp(hour + HOUR)]
    statement = f"SELECT (SELECT count(*) FROM {entries}), ({rows})"
    with connection.cursor() as cursor:
        cursor.execute(statement, bounds * 2)
        log_count, usage_count = cursor.fetchone()
    return log_count < (usage_count or 0)


def _rebuild_step(difference: Difference) -> Rebuilding:
    if difference.of_rollup:
        return rollups.rebuild_day, rollups.floor_day(difference.hour)
    return guardrails.rebuild_hour if difference.of_guardrail else rollups.rebuild_hour, difference.hour


def _sum(name: str) -> str:
    """The sum of a measure. SQLite sums in floating point: there a rest tiny beside what is added up counts as 0."""
    sum_ = f'coalesce(sum("{name}"), 0)'
    if connection.vendor != "sqlite" or name not in MONEY:
        return sum_
    return f'CASE WHEN abs({sum_}) > 5e-10 + 1e-13 * sum(abs("{name}")) THEN round({sum_}, 9) ELSE 0 END'


def _difference(row: Sequence[Any], names: Sequence[str], measures: Sequence[str]) -> Difference:
    dimensions = dict(zip(names, row, strict=False))
    dimensions["hour"] = rollups.parse_timestamp(dimensions["hour"])
    amounts = dict(zip(measures, row[len(names) :], strict=True))
    return Difference(dimensions, {name: amount for name, amount in amounts.items() if amount})
