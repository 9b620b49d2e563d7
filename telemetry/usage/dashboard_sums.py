"""The figures of the console's first page, read from the usage tables, never from the log."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection
from django.utils import timezone

from accounts.models import User
from gateway_project.json_types import JsonObject
from providers.models import Provider
from telemetry.usage import rollups
from telemetry.usage.models import LATENCY_COLUMNS
from telemetry.usage.rollups import TOKENS
from telemetry.usage.statistics import percentile

UNKNOWN_COSTS = ("unknown_cost_requests", "unpriced_requests")
COUNTS = ("requests", "completed", "denied", "errors", "cache_hits", "saved_tokens", *UNKNOWN_COSTS, *TOKENS)
COSTS = ("cost", "estimated_cost")
SUMMED = (*COUNTS, *LATENCY_COLUMNS, *COSTS, "saved_cost")
TOP_ROWS = 5
# What the top lists show of users and models, and of providers; they are sorted by the first.
WORK = ("requests", *UNKNOWN_COSTS, *TOKENS, *COSTS)
HEALTH = ("attempts", "failed_attempts", *UNKNOWN_COSTS, *LATENCY_COLUMNS, *COSTS)
NO_MODEL = "(not sent to a model)"  # of requests that were refused before
END = datetime(9999, 1, 1, tzinfo=UTC)

Rows = list[JsonObject]


class TopRow(NamedTuple):
    """A user, model or provider with what it came to; `id` is null of nobody, the name of a model."""

    id: Any
    name: str
    sums: JsonObject  # WORK or HEALTH, with p50 and p95 in milliseconds (None without requests); costs by currency


@dataclass(frozen=True, slots=True)
class PeriodChoice:
    """A period up to now. Its charts have a point for each day (`days`) or for each hour."""

    name: str
    title: str
    length: timedelta
    days: bool = False

    def start(self, now: datetime) -> datetime:
        """The full hour or, with `days`, the full day at which it begins (UTC)."""
        begin = (now - self.length).replace(minute=0, second=0, microsecond=0)
        return begin.replace(hour=0) if self.days else begin


PERIODS = {
    period.name: period
    for period in (
        PeriodChoice("hour", "Last hour", timedelta(hours=1)),
        PeriodChoice("day", "Last day", timedelta(days=1)),
        PeriodChoice("month", "Last month", timedelta(days=30), days=True),
    )
}


def dashboard_sums(period: PeriodChoice) -> JsonObject:
    """The totals, chart series and top lists of a period."""
    now = timezone.now()
    start = period.start(now)
    rows = _sums(start, ("at", "currency"), SUMMED, by_hour=not period.days)
    return {
        "since": start,
        "totals": _totals(rows),
        "series": _series(rows, period, now),
        "top": {
            "users": top(start, "user_id", WORK),
            "models": top(start, "model", WORK),
            "providers": top(start, "provider_id", HEALTH),
        },
    }


def top(start: datetime, dimension: str, measures: Sequence[str]) -> list[TopRow]:
    """The rows with the most of the first measure; `dimension` is user_id, model or provider_id."""
    # All rows are added up by this measure alone: by all of them it would take several times as long.
    ids = [row[dimension] for row in _sums(start, (dimension,), measures[:1], most=TOP_ROWS)]
    by_id = defaultdict(list)
    for row in _sums(start, (dimension, "currency"), measures, among=ids) if ids else ():
        by_id[row[dimension]].append(row)
    names = _names(dimension, ids)
    return [TopRow(id_, names.get(id_, str(id_) or NO_MODEL), _top_measures(by_id[id_], measures)) for id_ in ids]


def _top_measures(rows: Rows, measures: Sequence[str]) -> JsonObject:
    sums: JsonObject = {name: sum(row[name] for row in rows) for name in measures}
    if measures == HEALTH:
        sums |= _percentiles(rows)
    return sums | {"tokens": sum(sums.get(name, 0) for name in TOKENS), "costs": _money(rows, *COSTS)}


def _totals(rows: Rows) -> JsonObject:
    """Totals: counts, tokens, cost and savings by currency, p50 and p95 in milliseconds (None without requests)."""
    totals = {name: sum(row[name] for row in rows) for name in COUNTS}
    totals["tokens"] = sum(totals[name] for name in TOKENS)
    return totals | _percentiles(rows) | {"cost": _money(rows, *COSTS), "saved": _money(rows, "saved_cost")}


def _percentiles(rows: Rows) -> dict[str, float | None]:
    latencies = [sum(row[name] for row in rows) for name in LATENCY_COLUMNS]
    return {"p50": percentile(latencies, 0.5), "p95": percentile(latencies, 0.95)}


def _money(rows: Rows, *names: str) -> dict[str, Decimal]:
    """The sum of the named measures in each currency."""
    amounts: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        amounts[row["currency"]] += sum(Decimal(str(row[name])) for name in names)
    return {currency: amount for currency, amount in sorted(amounts.items()) if currency and amount}


def _series(rows: Rows, period: PeriodChoice, now: datetime) -> JsonObject:
    """At each hour or day of a period: {labels, requests, errors, tokens, costs: {currency: costs}}."""
    points, start = [], period.start(now)
    while start <= now:
        points.append(start)
        start += timedelta(days=1) if period.days else timedelta(hours=1)
    sums: dict[datetime, dict[str, Any]] = {point: defaultdict(int) for point in points}
    for row in rows:
        at = rollups.parse_timestamp(row["at"])
        point = sums.get(at, defaultdict(int))
        for name in ("requests", "errors", *TOKENS):
            point[name] += row[name]
        point[row["currency"]] += float(row["cost"]) + float(row["estimated_cost"])
    currencies = _money(rows, *COSTS)
    return {
        "labels": [f"{point:%d %b}" if period.days else f"{point:%H:%M} UTC" for point in points],
        "requests": [sums[point]["requests"] for point in points],
        "errors": [sums[point]["errors"] for point in points],
        "tokens": [sum(sums[point][name] for name in TOKENS) for point in points],
        "costs": {currency: [sums[point][currency] for point in points] for currency in currencies},
    }


def _sums(
    start: datetime,
    by: Sequence[str],
    names: Sequence[str],
    *,
    most: int = 0,
    among: Sequence[Any] = (),
    by_hour: bool = False,
) -> Rows:
    """Sums from a full hour on, by dimensions (`at` is the day, or with `by_hour` the hour).

    `most` limits them to the rows with the greatest first measure; rows whose first dimension is null are then left
    out. `among` limits them to these values of the first dimension.
    """
    usage, parameters = rollups.usage_rows(start, END, by_hour=by_hour, dimensions={*by} - {"at"})
    usage = rollups.with_served_models(usage, ["hour", *by], names) if "model" in by else usage
    at = '"hour"' if by_hour else rollups.day_expression()
    sums = ", ".join(f'coalesce(sum("{name}"), 0) AS "{name}"' for name in names)
    groups = rollups.columns(by)
    # A provider that failed before another one served has attempts, and no requests.
    served = f'WHERE "{by[0]}" IS NOT NULL GROUP BY {groups} HAVING sum("{names[0]}") > 0'
    greatest = f"{served} ORDER BY {len(by) + 1} DESC LIMIT {most}"
    condition = f'WHERE "{by[0]}" IN ({", ".join(["%s"] * len(among))})' if among else ""
    ending = greatest if most else f"{condition} GROUP BY {groups}"
    rows = f'(SELECT {at} AS "at", used.* FROM {usage}) AS used'
    with connection.cursor() as cursor:
        query = f"SELECT {groups}, {sums} FROM {rows} {ending}"
        cursor.execute(query, [*parameters, *among])
        return [dict(zip((*by, *names), _read(row, len(by)), strict=True)) for row in cursor.fetchall()]


def _read(row: Sequence[Any], dimensions: int) -> list[Any]:
    """The row with integral sums as int; PostgreSQL returns sums of integers as Decimal."""
    return [*row[:dimensions], *(int(value) if value == int(value) else value for value in row[dimensions:])]


def _names(dimension: str, ids: Sequence[int]) -> dict[int, str]:
    if dimension == "user_id":
        return dict(User.objects.filter(pk__in=ids).values_list("pk", "username"))
    if dimension == "provider_id":
        return dict(Provider.objects.filter(pk__in=ids).values_list("pk", "name"))
    return {}
