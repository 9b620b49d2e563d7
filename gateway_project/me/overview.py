"""The first page: the user's limits as bars, and the number of keys."""

from django.http import HttpRequest, HttpResponse

from gateway_project.me.site import caller, page, show
from keys.models import ApiKey
from licensing.console.defaults import user_default_limits
from licensing.fullness import fullness, unpriced_notes
from licensing.models import Limit
from licensing.status import limit_statuses

MAX_LIMITS = 50


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Limits and keys of the user, and the defaults that apply."""
    user = caller(request).user
    own = Limit.objects.of(user)
    rows = own.shown().effective().order_by("id")
    limits = list(rows[:MAX_LIMITS])
    states = zip(limits, limit_statuses(limits), unpriced_notes(limits), strict=True)
    bars = [
        (limit, f"{limit.subject_kind.capitalize()} {limit.subject}", fullness(limit, status), note)
        for limit, status, note in states
    ]
    keys = ApiKey.objects.live().of(user).count()
    more = rows.count() - MAX_LIMITS if len(limits) == MAX_LIMITS else 0
    context = {"bars": bars, "more": more, "keys": keys, "default_limits": user_default_limits(user, own, keys)}
    return show(request, "overview", "Overview", context)
