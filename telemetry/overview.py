"""The figures of the console's first page and of its statistics, out of the roll-ups: never out of the log."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Sum
from django.db.models.functions import TruncDay
from django.utils import timezone

from accounts.models import User
from providers.models import Provider
from telemetry.models import LATENCY_COLUMNS, LATENCY_MS, UsageHour

TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
COUNTS = ("requests", "completed", "denied", "errors", "cache_hits", "saved_tokens", *TOKENS)
MOST = 5


@dataclass(frozen=True, slots=True)
class Period:
    """A time up to now; `days` says whether its charts have a point for each day, or else for each hour."""

    name: str
    title: str
    length: timedelta
    days: bool = False

    def start(self, now: datetime) -> datetime:
        """The whole hour, or the whole day, with which it begins (UTC)."""
        begin = (now - self.length).replace(minute=0, second=0, microsecond=0)
        return begin.replace(hour=0) if self.days else begin


PERIODS = {
    period.name: period
    for period in (
        Period("hour", "Last hour", timedelta(hours=1)),
        Period("day", "Last day", timedelta(days=1)),
        Period("month", "Last month", timedelta(days=30), days=True),
    )
}


def hours(start: datetime) -> QuerySet[UsageHour]:
    """The roll-ups from this hour on."""
    return UsageHour.objects.filter(merged__in=(True, False), hour__gte=start)


def totals(start: datetime) -> dict[str, Any]:
    """Everything of a time in one sum: counts, tokens, cost by currency, p50 and p95 in milliseconds (None: none)."""
    names = (*COUNTS, *LATENCY_COLUMNS)
    found = hours(start).aggregate(**{f"sum_{name}": Sum(name) for name in names})
    told = {name: int(found[f"sum_{name}"] or 0) for name in names}
    latencies = [told.pop(name) for name in LATENCY_COLUMNS]
    told["tokens"] = sum(told[name] for name in TOKENS)
    told |= {"p50": percentile(latencies, 0.5), "p95": percentile(latencies, 0.95), "cost": costs(hours(start))}
    return told


def costs(rows: QuerySet[UsageHour]) -> dict[str, Decimal]:
    """What was spent in each currency, estimates among it."""
    found = rows.exclude(currency="").values("currency").annotate(known=Sum("cost"), guessed=Sum("estimated_cost"))
    spent = {row["currency"]: (row["known"] or 0) + (row["guessed"] or 0) for row in found}
    return {currency: Decimal(amount) for currency, amount in sorted(spent.items()) if amount}


def percentile(counts: list[int], share: float) -> int | None:
    """The bound in milliseconds below which so large a share of the latencies lies; None where there are none."""
    wanted, seen = share * sum(counts), 0
    if not wanted:
        return None
    for bound, number in zip((*LATENCY_MS, LATENCY_MS[-1]), counts, strict=True):
        seen += number
        if seen >= wanted:
            return bound
    return LATENCY_MS[-1]


def series(period: Period, now: datetime) -> dict[str, list[Any]]:
    """Requests, errors and tokens at each hour or day of a period: {labels, requests, errors, tokens}."""
    start = period.start(now)
    step = timedelta(days=1) if period.days else timedelta(hours=1)
    rows = hours(start).annotate(at=TruncDay("hour") if period.days else F("hour")).values("at")
    names = ("requests", "errors", *TOKENS)
    sums: dict[datetime, dict[str, int]] = defaultdict(dict)
    for row in rows.annotate(**{f"sum_{name}": Sum(name) for name in names}):
        sums[row["at"]] = {name: int(row[f"sum_{name}"] or 0) for name in names}
    points = []
    while start <= now:
        points.append(start)
        start += step
    return {
        "labels": [f"{point:%d %b}" if period.days else f"{point:%H:%M}" for point in points],
        "requests": [sums[point].get("requests", 0) for point in points],
        "errors": [sums[point].get("errors", 0) for point in points],
        "tokens": [sum(sums[point].get(name, 0) for name in TOKENS) for point in points],
    }


def top(start: datetime, dimension: str) -> list[tuple[str, int, int]]:
    """Who or what had the most requests: name, requests, tokens; `dimension` is user_id, model or provider_id."""
    rows = hours(start).exclude(**{dimension: None}).exclude(requests=None).values(dimension)
    told = rows.annotate(number=Sum("requests"), **{f"sum_{name}": Sum(name) for name in TOKENS})
    found = list(told.order_by("-number")[:MOST])
    names = _names(dimension, [row[dimension] for row in found])
    return [
        (
            names.get(row[dimension], str(row[dimension]) or "(none)"),
            int(row["number"]),
            sum(int(row[f"sum_{name}"] or 0) for name in TOKENS),
        )
        for row in found
    ]


def unpriced(start: datetime) -> list[str]:
    """Models with traffic whose cost nobody knows."""
    rows = hours(start).filter(unknown_cost_requests__gt=0).exclude(model="")
    return sorted(rows.values_list("model", flat=True).distinct()[:MOST])


def overview(period: Period) -> dict[str, Any]:
    """All that the first page shows of a period."""
    now = timezone.now()
    start = period.start(now)
    return {
        "since": start,
        "totals": totals(start),
        "series": series(period, now),
        "top": {
            "users": top(start, "user_id"),
            "models": top(start, "model"),
            "providers": top(start, "provider_id"),
        },
    }


def _names(dimension: str, ids: list[Any]) -> dict[Any, str]:
    if dimension == "user_id":
        return dict(User.objects.filter(pk__in=ids).values_list("pk", "username"))
    if dimension == "provider_id":
        return dict(Provider.objects.filter(pk__in=ids).values_list("pk", "name"))
    return {}
