"""What the user has used, and what it cost, by day and by model."""

from datetime import timedelta
from decimal import Decimal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from gateway_project.console.display.money import money, short, without_price
from gateway_project.json_types import JsonObject
from gateway_project.me.site import caller, page, show
from telemetry import services
from telemetry.usage.statistics import UsageQuery

PERIODS = (7, 30, 90)  # in days, today included
MAX_MODELS = 100


@page
def usage(request: HttpRequest) -> HttpResponse:
    """Two tables of one period."""
    days = next((days for days in PERIODS if request.GET.get("days") == str(days)), 30)
    own = {"user_id": caller(request).user.pk}
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    period = services.period(midnight - timedelta(days=days - 1), None)
    by_day, by_model = (
        services.usage(UsageQuery(*period, (dimension,), own), 0, most).rows
        for dimension, most in (("day", days), ("model", MAX_MODELS))
    )
    most = max((row["requests"] for row in by_day), default=0) or 1
    context = {
        "days": days,
        "periods": PERIODS,
        "by_day": [_row(row, str(row["day"]), 100 * row["requests"] / most) for row in reversed(by_day)],
        "by_model": [_row(row, row["model"] or "unknown", 0) for row in by_model],
    }
    return show(request, "usage", "Usage", context)


def _row(row: JsonObject, name: str, width: float) -> JsonObject:
    read = row["input_tokens"] + row["cache_read_tokens"] + row["cache_write_tokens"]
    return {
        "name": name,
        "width": round(width, 1),
        "requests": row["requests"],
        "input": short(read),
        "output": short(row["output_tokens"]),
        "costs": [
            money(Decimal(cost["known"]) + Decimal(cost["estimated"]), cost["currency"]) for cost in row["costs"]
        ],
        "unpriced": without_price(row["unknown_cost_requests"]),
    }
