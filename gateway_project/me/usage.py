"""What the user has used, and what it cost, by day and by model."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from gateway_project.console.display.money import missing_costs, money, short_count
from gateway_project.console.period import with_query
from gateway_project.json_types import JsonObject
from gateway_project.me.site import caller, page, show_page
from telemetry import services
from telemetry.usage.dashboard_sums import NO_MODEL
from telemetry.usage.statistics import UsageQuery

MONTH = "month"  # from its first day on
PERIODS = {"7": "7 days", "30": "30 days", "90": "90 days", MONTH: "This month"}  # today included
MAX_MODELS = 100
MEASURES = (REQUESTS, COST) = ("requests", "cost")  # of the bars
Scale = Mapping[str, Decimal]
NO_BARS: Scale = {}


@page
def usage(request: HttpRequest) -> HttpResponse:
    """Two tables of one period."""
    return show_page(request, "usage", "Usage", _own_tables(request))


def _own_tables(request: HttpRequest) -> JsonObject:
    return usage_tables(request, {"user_id": caller(request).user.pk}, reverse("me:requests"))


def sums_of_month(user_id: int) -> JsonObject:
    """The requests of a user since the first day of the month and their cost, as a row of a table."""
    rows = usage_rows(days_of(MONTH), {"user_id": user_id}, "user", 1)
    return shown_row(rows[0], "") if rows else {}


def usage_tables(request: HttpRequest, filters: JsonObject, list_page: str, *, lists_models: bool = True) -> JsonObject:
    """The usage that the filters select, by day and by model.

    A day leads to the list of its requests, a model too if the list has such a filter.
    """
    period, measure = chosen_period(request), chosen_measure(request)
    days = days_of(period)
    by_day = usage_rows(days, filters, "day", days)
    scale = _scale(by_day, measure)
    return {
        "period": period,
        "periods": PERIODS,
        "measure": measure,
        "measures": MEASURES,
        "by_day": [_row_of_day(row, scale, list_page) for row in reversed(by_day)],
        "by_model": [
            _row_of_model(row, days, list_page if lists_models else "")
            for row in usage_rows(days, filters, "model", MAX_MODELS)
        ],
    }


def _row_of_day(row: JsonObject, scale: Scale, list_page: str) -> JsonObject:
    day = str(row["day"])
    return shown_row(row, day, scale) | {"page": with_query(list_page, {"start": day, "end": day})}


def _row_of_model(row: JsonObject, days: int, list_page: str) -> JsonObject:
    if not row["model"] or not list_page:
        return shown_row(row, row["model"] or NO_MODEL)
    query = {"start": f"{_first_day(days):%Y-%m-%d}", "model": row["model"]}
    return shown_row(row, row["model"]) | {"page": with_query(list_page, query)}


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


def chosen_period(request: HttpRequest) -> str:
    """The period that the query names; by default 30 days."""
    period = request.GET.get("days", "")
    return period if period in PERIODS else "30"


def days_of(period: str) -> int:
    """The number of its days, today included."""
    return timezone.now().day if period == MONTH else int(period)


def usage_rows(days: int, filters: JsonObject, dimension: str, most: int) -> list[JsonObject]:
    """At most so many rows of the usage that the filters select."""
    return services.usage(usage_query(days, filters, dimension), 0, most).rows


def usage_query(days: int, filters: JsonObject, *dimensions: str) -> UsageQuery:
    """The query for the last days, today included."""
    return UsageQuery(*services.period(_first_day(days), None), dimensions, filters)


def _first_day(days: int) -> datetime:
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=days - 1)


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
