"""Where a limit is shown, by the name under which it is counted."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from gateway_project.console.site import console_site
from gateway_project.database.ids import id_in
from licensing.models import SUBJECTS, Limit


@console_site().page("licensing/limit/named/", name="limit-by-name", part=True)
def limit_by_name(request: HttpRequest) -> HttpResponse:
    """Redirects to the limit that the address names, or to where it is set: the licence, or the settings."""
    name = request.GET.get("name", "")
    if name == "uses":
        return HttpResponseRedirect(reverse("admin:licence"))
    if (row_id := _row_of(name)) is not None:
        return HttpResponseRedirect(reverse("admin:licensing_limit_change", args=[row_id]))
    return HttpResponseRedirect(reverse("admin:system"))


def _row_of(name: str) -> int | None:
    """The id of the limit of such a name (measure, whose, their id, window); None if the settings have it."""
    measure, kind, number, window = (*name.split(":"), "", "", "", "")[:4]
    if kind not in SUBJECTS:
        return None
    rows = Limit.objects.filter(**{kind: id_in(number)}, measure=measure, window=window)
    return rows.values_list("pk", flat=True).first()
