"""The first page: the user's limits as bars, and the number of keys."""

from decimal import Decimal

from django.http import HttpRequest, HttpResponse

from gateway_project.json_types import JsonObject
from gateway_project.me.site import caller, page, show
from keys.models import ApiKey
from licensing.models import Limit, LimitStatus
from licensing.status import limit_statuses

MAX_LIMITS = 50


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Limits and keys of the user."""
    user = caller(request).user
    limits = list(Limit.objects.shown().of(user).effective().order_by("id")[:MAX_LIMITS])
    bars = [bar(limit, status) for limit, status in zip(limits, limit_statuses(limits), strict=True)]
    return show(request, "overview", "Overview", {"bars": bars, "keys": ApiKey.objects.live().of(user).count()})


def bar(limit: Limit, status: LimitStatus) -> JsonObject:
    """How much of a limit is used, for a bar of a hundred parts."""
    percent = 100 * (status.used or Decimal(0)) / limit.amount
    return {
        "limit": limit,
        "subject": f"{limit.subject_kind.capitalize()} {limit.subject}",
        "used": "unknown" if status.used is None else f"{status.used.normalize():,f}",
        "unit": limit.currency if limit.measure == "cost" else "",
        "percent": int(percent),
        "width": int(min(percent, Decimal(100))),
        "is_full": percent >= 100,
        "resets_at": status.resets_at,
    }
