"""The user's own requests: the newest first, and each with what is known of it."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from gateway_project.console.display.measures import short_duration
from gateway_project.console.period import with_query
from gateway_project.json_types import JsonObject
from gateway_project.me.log_filter import MAX_SEARCHED, PeriodFilter, RequestFilter
from gateway_project.me.site import caller, page, show_page
from telemetry.details import LONG_FIELDS, content_context, cost, result_badge, tokens
from telemetry.models import EntryType, LogEntry
from telemetry.querysets import LogEntryQuerySet

PAGE_ROWS = 50
MAX_PAGES = 200  # each page reads the index up to it


@page
def request_list(request: HttpRequest) -> HttpResponse:
    """A page of requests."""
    return show_page(
        request, "requests", "Requests", entry_rows(request, _own_entries(request), RequestFilter(request.GET))
    )


@page
def request_page(request: HttpRequest, entry_id: int) -> HttpResponse:
    """One request; raises Http404 for one that is not the user's."""
    entry = entry_or_404(_own_entries(request), entry_id)
    return show_page(request, "request", "Request", content_context(entry, _pages(entry)))


def entry_rows(request: HttpRequest, entries: LogEntryQuerySet[LogEntry], form: PeriodFilter) -> JsonObject:
    """A page of the work requests among these entries that the form selects, the newest first."""
    number = _number(request.GET.get("page", ""))
    first = (number - 1) * PAGE_ROWS
    newest = _work(form.select(entries)).newest_first().defer(*LONG_FIELDS).newest(first, first + PAGE_ROWS + 1)
    has_older = len(newest) > PAGE_ROWS and number < MAX_PAGES
    return {
        "form": form,
        "max_searched": MAX_SEARCHED,
        "rows": list(map(_row, newest[:PAGE_ROWS])),
        "newer": with_query("", form.query | {"page": number - 1}) if number > 1 else "",
        "older": with_query("", form.query | {"page": number + 1}) if has_older else "",
    }


def entry_or_404(entries: LogEntryQuerySet[LogEntry], entry_id: int) -> LogEntry:
    """The work request with this id among these entries; raises Http404."""
    entry = _work(entries).filter(pk=entry_id).first()
    if entry is None:
        raise Http404
    return entry


def _own_entries(request: HttpRequest) -> LogEntryQuerySet[LogEntry]:
    entries = LogEntry.objects.of_user(caller(request).user.pk)
    assert isinstance(entries, LogEntryQuerySet)
    return entries


def _pages(entry: LogEntry) -> dict[str, str]:
    """The page that shows why a request was refused: the user's limits, or the form that asks for the model."""
    ask = with_query(reverse("me:access-ask", args=["model"]), {"model": entry.model})
    pages = {429: reverse("me:overview"), 403: ask}
    return {"Error": pages[entry.status]} if entry.status in pages else {}


def _work(entries: LogEntryQuerySet[LogEntry]) -> LogEntryQuerySet[LogEntry]:
    return entries.filter(entry_type=EntryType.WORK_REQUEST)


def _number(text: str) -> int:
    """The number of a page, 1 for what is none."""
    return min(max(int(text[:9]), 1), MAX_PAGES) if text.isascii() and text.isdigit() else 1


def _row(entry: LogEntry) -> JsonObject:
    return {
        "entry": entry,
        "badge": result_badge(entry),
        "tokens": "" if entry.input_tokens is None else tokens(entry),
        "cost": cost(entry),
        "took": short_duration(entry.duration_ms),
    }
