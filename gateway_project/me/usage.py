"""What the user has used, and what it cost, by day and by model."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from gateway_project.console.display.money import missing_costs, money, short_count
from gateway_project.json_types import JsonObject
from gateway_project.me.site import caller, page, show_page
from telemetry import services
from telemetry.usage.statistics import UsageQuery

PERIODS = (7, 30, 90)  # in days, today included
MAX_MODELS = 100
MEASURES = (REQUESTS, COST) = ("requests", "cost")  # of the bars
Scale = Mapping[str, Decimal]
NO_MODEL = "(not sent to a model)"  # of requests that were refused before
NO_BARS: Scale = {}


@page
def usage(request: HttpRequest) -> HttpResponse:
    """Two tables of one period."""
    return show_page(request, "usage", "Usage", usage_tables(request, {"user_id": caller(request).user.pk}))


def usage_tables(request: HttpRequest, filters: JsonObject) -> JsonObject:
    """The usage that the filters select, by day and by model."""
    days, measure = chosen_days(request), chosen_measure(request)
    by_day = usage_rows(days, filters, "day", days)
    scale = _scale(by_day, measure)
    return {
        "days": days,
        "periods": PERIODS,
        "measure": measure,
        "measures": MEASURES,
        "by_day": [shown_row(row, str(row["day"]), scale) for row in reversed(by_day)],
        "by_model": [
            shown_row(row, row["model"] or NO_MODEL) for row in usage_rows(days, filters, "model", MAX_MODELS)
        ],
    }


def _scale(rows: Sequence[JsonObject], measure: str) -> Scale:
    """The amount of the longest bar: the most requests, or the highest cost in each currency."""
    if measure == REQUESTS:
        return {REQUESTS: max((Decimal(row["requests"]) for row in rows), default=Decimal(0))}
    scale: dict[str, Decimal] = {}
    for cost in (cost for row in rows for cost in row["costs"]):
        scale[cost["currency"]] = max(_sum(cost), scale.get(cost["currency"], Decimal(0)))
    return scale


def _sum(cost: Mapping[str, str]) -> Decimal:
    return Decimal(cost["known"]) + Decimal(cost["estimated"])


def chosen_measure(request: HttpRequest) -> str:
    """The measure that the query names; by default requests."""
    return COST if request.GET.get("measure") == COST else REQUESTS


def chosen_days(request: HttpRequest) -> int:
    """The period that the query names, in days; by default 30."""
    return next((days for days in PERIODS if request.GET.get("days") == str(days)), 30)


def usage_rows(days: int, filters: JsonObject, dimension: str, most: int) -> list[JsonObject]:
    """At most so many rows of the usage that the filters select."""
    return services.usage(usage_query(days, filters, dimension), 0, most).rows


def usage_query(days: int, filters: JsonObject, *dimensions: str) -> UsageQuery:
    """The query for the last days, today included."""
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    period = services.period(midnight - timedelta(days=days - 1), None)
    return UsageQuery(*period, dimensions, filters)


def shown_row(row: JsonObject, name: str, scale: Scale = NO_BARS) -> JsonObject:
    """A row of a table; bars have widths of 100 parts, and None is no bar."""
    input_tokens = row["input_tokens"] + row["cache_read_tokens"] + row["cache_write_tokens"]
    return {
        "name": name,
        "width": _width(Decimal(row["requests"]), scale.get(REQUESTS)),
        "requests": row["requests"],
        "input": short_count(input_tokens),
        "output": short_count(row["output_tokens"]),
        "costs": [
            (money(_sum(cost), cost["currency"]), _width(_sum(cost), scale.get(cost["currency"])))
            for cost in row["costs"]
        ],
        "missing": missing_costs(row),
    }


def _width(amount: Decimal, longest: Decimal | None) -> float | None:
    return None if longest is None else round(float(100 * amount / (longest or 1)), 1)
