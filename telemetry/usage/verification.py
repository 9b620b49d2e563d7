"""Compares the hourly usage with the log and the daily usage with its hours, and repairs differences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Min

from gateway_project.json_types import JsonObject
from telemetry.models import LogEntry
from telemetry.retention.deletion import kept_since
from telemetry.usage import rollups
from telemetry.usage.rollups import ANY_MERGED, DAY, DAYS, DIMENSIONS, HOUR_BETWEEN, MEASURES, USAGE, columns
from telemetry.usage.tags import have_overflowed

MONEY = ("cost", "estimated_cost", "saved_cost")
EMPTY: tuple[object, ...] = (None, "", [], {}, "[]", "{}")


@dataclass(frozen=True, slots=True)
class Difference:
    """Log minus hourly usage of one hour and set of dimensions; with `of_day`, merged hours minus daily usage."""

    dimensions: JsonObject
    amounts: dict[str, int | Decimal]
    of_day: bool = False

    @property
    def hour(self) -> datetime:
        """The beginning of the hour or day."""
        return self.dimensions["hour"]

    def __str__(self) -> str:
        when = f"{self.hour:%Y-%m-%d}, all of it" if self.of_day else f"{self.hour:%Y-%m-%d %H}:00"
        dimensions = [
            f"{name}={value}" for name, value in self.dimensions.items() if name != "hour" and value not in EMPTY
        ]
        amounts = [f"{name} {amount:+}" for name, amount in self.amounts.items()]
        return f"{when} {' '.join(dimensions)}: {', '.join(amounts)}"


def differences(start: datetime, end: datetime) -> list[Difference]:
    """The differences between log and hours, and between hours and days, in full hours; the first hundred of each.

    One statement reads both sides from one snapshot: an entry that arrives meanwhile is in both or in neither.
    """
    entries = rollups.log_rows('"timestamp" >= %s AND "timestamp" < %s', has_overflow=have_overflowed())
    log = rollups.aggregation(entries)
    hours = _differences(log, USAGE, start, end)
    merged = f'SELECT * FROM "{USAGE}" WHERE "merged" = TRUE AND {HOUR_BETWEEN}'
    others = columns((*DIMENSIONS[1:], *MEASURES))
    of_day = f'SELECT {rollups.day_expression()} AS "hour", {others} FROM ({merged}) AS merged'
    days = _differences(of_day, DAYS, rollups.floor_day(start), rollups.ceil_day(end))
    return [*hours, *(replace(difference, of_day=True) for difference in days)]


def _differences(truth: str, table: str, start: datetime, end: datetime, limit: int = 100) -> list[Difference]:
    """The sums that differ between a SELECT and a usage table with the same columns."""
    negative = ", ".join(f'-"{name}"' for name in MEASURES)
    usage = f'SELECT {columns(DIMENSIONS)}, {negative} FROM "{table}" WHERE {ANY_MERGED} AND {HOUR_BETWEEN}'
    sums = {name: _sum(name) for name in MEASURES}
    differ = " OR ".join(f"{expression} <> 0" for expression in sums.values())
    statement = (
        f"SELECT {columns(DIMENSIONS)}, {', '.join(sums.values())} FROM ({truth} UNION ALL {usage}) AS told"
        f' GROUP BY {columns(DIMENSIONS)} HAVING {differ} ORDER BY "hour" LIMIT {limit}'
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [rollups.sql_timestamp(start), rollups.sql_timestamp(end)] * 2)
        return [_difference(row) for row in cursor.fetchall()]


def full_hours(start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """A period in full hours; by default all hours up to now of which the log still has every entry."""
    if start is None:
        oldest = LogEntry.objects.aggregate(oldest=Min("timestamp"))["oldest"] or now
        limit = kept_since(now)
        start = max(oldest, rollups.ceil_hour(limit)) if limit else oldest
    begin, end = rollups.floor_hour(start), end or now
    return begin, max(begin, rollups.ceil_hour(end))


def days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The period in parts of at most a day, the most that one statement reads."""
    while start < end:
        next_start = min(start + DAY, end)
        yield start, next_start
        start = next_start


def repair(start: datetime, end: datetime) -> int:
    """Rebuild the hours that differ from the log and the days that differ from their hours; returns their number."""
    repaired: set[tuple[bool, datetime]] = set()
    while wrong := {(difference.of_day, difference.hour) for difference in differences(start, end)} - repaired:
        for of_day, begin in sorted(wrong):
            make = rollups.rebuild_day if of_day else rollups.rebuild_hour
            make(begin)
        repaired |= wrong
    return len(repaired)


def _sum(name: str) -> str:
    """The sum of a measure. SQLite sums decimals as floating point: these sums are rounded before they are compared."""
    sum_ = f'coalesce(sum("{name}"), 0)'
    return f"round({sum_}, 9)" if connection.vendor == "sqlite" and name in MONEY else sum_


def _difference(row: Sequence[Any]) -> Difference:
    dimensions = dict(zip(DIMENSIONS, row, strict=False))
    dimensions["hour"] = rollups.parse_timestamp(dimensions["hour"])
    amounts = dict(zip(MEASURES, row[len(DIMENSIONS) :], strict=True))
    return Difference(dimensions, {name: amount for name, amount in amounts.items() if amount})
