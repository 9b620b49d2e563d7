"""The first page: the user's limits as bars, and the number of keys."""

from itertools import chain, islice

from django.http import HttpRequest, HttpResponse

from gateway_project.me.site import caller, page, show_page
from keys.models import ApiKey
from licensing.console.defaults import default_rows, user_default_limits
from licensing.fullness import fullness, unpriced_notes
from licensing.models import Limit
from licensing.status import limit_statuses

MAX_LIMITS = 50


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Limits and keys of the user, and the defaults that apply."""
    user = caller(request).user
    own, live_keys = Limit.objects.of(user), ApiKey.objects.live().of(user)
    rows = own.shown().effective().order_by("id")
    limits = list(islice(chain(rows[:MAX_LIMITS], default_rows(user, live_keys[:MAX_LIMITS], own)), MAX_LIMITS))
    states = zip(limits, limit_statuses(limits), unpriced_notes(limits), strict=True)
    bars = [
        (limit, f"{limit.subject_kind.capitalize()} {limit.subject}", fullness(limit, status), note)
        for limit, status, note in states
    ]
    keys = live_keys.count()
    more = max(rows.count() - MAX_LIMITS, 0) if len(limits) == MAX_LIMITS else 0
    context = {"bars": bars, "more": more, "keys": keys, "default_limits": user_default_limits(user, own, keys)}
    return show_page(request, "overview", "Overview", context)
