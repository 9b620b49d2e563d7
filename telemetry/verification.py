"""Whether the hours of usage say what the log says, and the days what their hours say, and how they are made to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Min

from telemetry import rollups
from telemetry.models import LogEntry
from telemetry.retention import kept_since
from telemetry.rollups import ALL, DAY, DAYS, DIMENSIONS, MEASURES, USAGE, WITHIN, columns

MONEY = ("cost", "estimated_cost", "saved_cost")
EMPTY = (None, "", [], {}, "[]", "{}")


@dataclass(frozen=True, slots=True)
class Difference:
    """What the log has more (less, below zero) than the usage has, of one hour and set of dimensions.

    Or what the merged hours have more than their day.
    """

    dimensions: dict[str, Any]
    amounts: dict[str, int | Decimal]
    of_day: bool = False

    @property
    def hour(self) -> datetime:
        """With which the hour or the day begins."""
        return self.dimensions["hour"]

    def __str__(self) -> str:
        when = f"{self.hour:%Y-%m-%d}, all of it" if self.of_day else f"{self.hour:%Y-%m-%d %H}:00"
        told = [f"{name}={value}" for name, value in self.dimensions.items() if name != "hour" and value not in EMPTY]
        amounts = [f"{name} {amount:+}" for name, amount in self.amounts.items()]
        return f"{when} {' '.join(told)}: {', '.join(amounts)}"


def differences(start: datetime, end: datetime) -> list[Difference]:
    """Where log and usage differ, from one full hour to another, or hours and days; the first hundred of each.

    One statement looks at both, and so at one moment: entries that arrive meanwhile are in both or in neither.
    """
    log = rollups.added_up(rollups.of_log('"timestamp" >= %s AND "timestamp" < %s'))
    hours = _differences(log, USAGE, start, end)
    merged = f'SELECT * FROM "{USAGE}" WHERE "merged" = TRUE AND {WITHIN}'
    of_day = (
        f'SELECT {rollups.day_of_hour()} AS "hour", {columns((*DIMENSIONS[1:], *MEASURES))} FROM ({merged}) AS merged'
    )
    days = _differences(of_day, DAYS, rollups.full_day(start), rollups.day_not_before(end))
    return [*hours, *(replace(found, of_day=True) for found in days)]


def _differences(truth: str, table: str, start: datetime, end: datetime, most: int = 100) -> list[Difference]:
    """What one says more than the other; both have the same columns."""
    negative = ", ".join(f'-"{name}"' for name in MEASURES)
    usage = f'SELECT {columns(DIMENSIONS)}, {negative} FROM "{table}" WHERE {ALL} AND {WITHIN}'
    sums = {name: _sum(name) for name in MEASURES}
    differ = " OR ".join(f"{expression} <> 0" for expression in sums.values())
    statement = (
        f"SELECT {columns(DIMENSIONS)}, {', '.join(sums.values())} FROM ({truth} UNION ALL {usage}) AS told"
        f' GROUP BY {columns(DIMENSIONS)} HAVING {differ} ORDER BY "hour" LIMIT {most}'
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [rollups.moment(start), rollups.moment(end)] * 2)
        return [_difference(row) for row in cursor.fetchall()]


def full_hours(start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """The full hours of a period: unless told, all those of which the log still has every entry, up to now."""
    if start is None:
        oldest = LogEntry.objects.aggregate(oldest=Min("timestamp"))["oldest"] or now
        kept = kept_since(now)
        start = max(oldest, rollups.hour_not_before(kept)) if kept else oldest
    begin, end = rollups.full_hour(start), end or now
    return begin, max(begin, rollups.hour_not_before(end))


def days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The period in pieces of a day at most: no statement reads more than that."""
    while start < end:
        behind = min(start + DAY, end)
        yield start, behind
        start = behind


def repair(start: datetime, end: datetime) -> int:
    """Make the hours that differ anew out of the log, and the days that do out of their hours; how many there were."""
    repaired: set[tuple[bool, datetime]] = set()
    while wrong := {(found.of_day, found.hour) for found in differences(start, end)} - repaired:
        for of_day, begin in sorted(wrong):
            make = rollups.make_day_anew if of_day else rollups.make_anew
            make(begin)
        repaired |= wrong
    return len(repaired)


def _sum(name: str) -> str:
    """SQLite adds decimals up in floating point, where what is equal may differ in the last digits."""
    sum_ = f'coalesce(sum("{name}"), 0)'
    return f"round({sum_}, 9)" if connection.vendor == "sqlite" and name in MONEY else sum_


def _difference(row: Sequence[Any]) -> Difference:
    dimensions = dict(zip(DIMENSIONS, row, strict=False))
    dimensions["hour"] = rollups.read_moment(dimensions["hour"])
    amounts = dict(zip(MEASURES, row[len(DIMENSIONS) :], strict=True))
    return Difference(dimensions, {name: amount for name, amount in amounts.items() if amount})
