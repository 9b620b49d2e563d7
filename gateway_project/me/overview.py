"""The first page: what the month has cost, the user's limits as bars, and the number of keys."""

from itertools import chain, islice
from typing import NamedTuple

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from accounts.access_requests.models import RequestKind
from gateway_project.console.period import with_query
from gateway_project.me.site import caller, page, show_page
from gateway_project.me.usage import sums_of_month
from keys.models import ApiKey
from licensing.console.defaults import default_rows, user_default_limits
from licensing.fullness import Fullness, fullness, unpriced_notes
from licensing.models import Limit, LimitStatus
from licensing.status import limit_statuses

MAX_LIMITS = 50


class Bar(NamedTuple):
    """A limit as the page shows it; `ask` is the form that asks for a higher one if it is almost used up."""

    limit: Limit
    subject: str
    full: Fullness
    note: str
    ask: str


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Limits and keys of the user, and the defaults that apply. Keys that cannot send requests have no bars."""
    user = caller(request).user
    own, live_keys = Limit.objects.of(user), ApiKey.objects.live().of(user)
    usable_keys = ApiKey.objects.usable().of(user)
    rows = own.shown().effective().filter(Q(key=None) | Q(key__in=usable_keys)).order_by("id")
    limits = list(islice(chain(rows[:MAX_LIMITS], default_rows(user, usable_keys[:MAX_LIMITS], own)), MAX_LIMITS))
    states = zip(limits, limit_statuses(limits), unpriced_notes(limits), strict=True)
    bars = sorted((_bar(*state) for state in states), key=lambda bar: -bar.full.width)
    keys = live_keys.count()
    more = max(rows.count() - MAX_LIMITS, 0) if len(limits) == MAX_LIMITS else 0
    context = {"bars": bars, "more": more, "keys": keys, "default_limits": user_default_limits(user, own, keys)}
    context["month"] = sums_of_month(user.pk)
    return show_page(request, "overview", "Overview", context)


def _bar(limit: Limit, status: LimitStatus, note: str) -> Bar:
    full = fullness(limit, status)
    kind = {"measure": limit.measure, "window": limit.window}
    ask = with_query(reverse("me:access-ask", args=[RequestKind.LIMIT.value]), kind)
    is_own = limit.subject_kind == "user"  # requests raise no other limits
    return Bar(
        limit,
        f"{limit.subject_kind.capitalize()} {limit.subject}",
        full,
        note,
        ask if is_own and full.is_scarce else "",
    )
