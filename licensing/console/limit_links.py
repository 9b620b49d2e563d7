"""Where a limit is shown, by the name under which it is counted."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from gateway_project.console.period import with_query
from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from licensing.models import SUBJECTS, Limit

# The settings of the defaults that keep one caller from using all capacity.
GUARDS = {
    ("login", "requests", "minute"): "GATEWAY_LOGIN_REQUESTS_PER_MINUTE",
    ("user", "requests", "minute"): "GATEWAY_USER_REQUESTS_PER_MINUTE",
    ("user", "concurrent", "none"): "GATEWAY_USER_CONCURRENT",
}


@console_site().page("licensing/limit/named/", name="limit-by-name", part=True)
def limit_by_name(request: HttpRequest) -> HttpResponse:
    """Redirects to the limit that the address names, or to where it is set: the licence, or the settings."""
    name = request.GET.get("name", "")
    if name == "uses":
        return HttpResponseRedirect(reverse("admin:licence"))
    if (row_id := _row_of(name)) is not None:
        return HttpResponseRedirect(reverse("admin:licensing_limit_change", args=[row_id]))
    return HttpResponseRedirect(_setting_page(name))


def _parts_of(name: str) -> tuple[str, ...]:
    """Measure, whose, their id, window."""
    return (*name.split(":"), "", "", "", "")[:4]


def _setting_page(name: str) -> str:
    """The page System, searched for the setting that has this default limit, if one has it."""
    measure, kind, _, window = _parts_of(name)
    setting = _setting_of(kind, (measure, window))
    page = with_query(reverse("admin:system"), {"q": setting} if setting else {})
    return f"{page}#setting-search" if setting else page


def _setting_of(subject: str, kind: tuple[str, str]) -> str:
    amount = settings.GATEWAY_LIMITS.get(subject, {}).get(kind)
    if (subject, *kind) == ("key", "requests", "minute") and amount == settings.GATEWAY_KEY_REQUESTS_PER_MINUTE:
        return "GATEWAY_KEY_REQUESTS_PER_MINUTE"
    return f"GATEWAY_{subject.upper()}_LIMITS" if amount is not None else GUARDS.get((subject, *kind), "")


def _row_of(name: str) -> int | None:
    """The id of the limit of such a name; None if the settings have it."""
    measure, kind, number, window = _parts_of(name)
    if kind not in SUBJECTS:
        return None
    rows = Limit.objects.filter(**{kind: id_in(number)}, measure=measure, window=window)
    return rows.values_list("pk", flat=True).first()
