"""What the members of a group did as its members: their requests, the usage and the cost."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from accounts.models import Group
from gateway_project.me.groups.pages import administered_group, show_tab
from gateway_project.me.log import entry_or_404, entry_rows
from gateway_project.me.log_filter import PeriodFilter
from gateway_project.me.site import caller, page, show_page
from gateway_project.me.usage import chosen_period, days_of, shown_row, usage_query, usage_rows, usage_tables
from telemetry import services
from telemetry.details import content_context
from telemetry.models import LogEntry
from telemetry.querysets import LogEntryQuerySet
from telemetry.viewsets import csv_response

MAX_MEMBERS = 200


@page
def entry_list(request: HttpRequest, group_id: int) -> HttpResponse:
    """Requests that members made, and those with keys of the group, the newest first."""
    group = administered_group(caller(request), group_id)
    return show_tab(request, "log", group, entry_rows(request, _entries(group), PeriodFilter(request.GET)))


@page
def entry_page(request: HttpRequest, group_id: int, entry_id: int) -> HttpResponse:
    """One of these requests; raises Http404 for any other."""
    group = administered_group(caller(request), group_id)
    context = content_context(entry_or_404(_entries(group), entry_id), {}) | {
        "current": "me:groups",
        "back": _log_of(group),
    }
    return show_page(request, "request", "Request", context)


def _entries(group: Group) -> LogEntryQuerySet[LogEntry]:
    entries = LogEntry.objects.of_groups([group.pk])
    assert isinstance(entries, LogEntryQuerySet)
    return entries


def _log_of(group: Group) -> str:
    return reverse("me:group-log", args=[group.pk])


@page
def usage(request: HttpRequest, group_id: int) -> HttpResponseBase:
    """What the group has used, and what it cost, by day, by model and by member; or all of it as CSV."""
    group = administered_group(caller(request), group_id)
    days, filters = days_of(chosen_period(request)), {"group": group.pk}
    if request.GET.get("format") == "csv":
        query = usage_query(days, filters, "day", "model")
        return csv_response(services.usage_csv(query), query, {"groupId": group.pk, "days": days})
    rows = usage_rows(days, filters, "user", MAX_MEMBERS)
    by_member = [shown_row(row, row["user_name"] or "deleted") for row in rows]
    return show_tab(
        request,
        "usage",
        group,
        usage_tables(request, filters, _log_of(group), lists_models=False) | {"by_member": by_member},
    )
