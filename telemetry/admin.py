"""The lists of log and cache entries in the console. All text of an entry is hostile: templates escape it."""

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import wraps
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR
from django.core.paginator import Page
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import ChoicesDropdownFilter, TextFilter
from unfold.decorators import display
from unfold.paginator import InfinitePaginator as ThemesPaginator
from unfold.views import ChangeList

from accounts.models import User
from gateway_project.api.audit import filters_of, start_export
from gateway_project.console.display.badges import Badge
from gateway_project.console.display.measures import short_duration
from gateway_project.console.display.money import money
from gateway_project.console.display.times import SECONDS, utc_time
from gateway_project.console.filters import MomentFilter, text_filter
from gateway_project.console.period import LIST_FILTERS, period_of, with_query
from gateway_project.console.site import view_name
from gateway_project.console.tables import ReadOnlyAdmin
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.models import Provider
from telemetry.details import LONG_FIELDS, entry_context, result_badge, tokens
from telemetry.export import log_as_csv, log_as_json_lines
from telemetry.guardrails.filters import GuardrailFilter, GuardrailResultFilter
from telemetry.log_page.cells import NameCells, unknown_cost
from telemetry.log_page.group_filter import GroupFilter
from telemetry.log_page.histogram import histogram
from telemetry.log_page.periods import period_links
from telemetry.log_page.result_filter import ResultFilter
from telemetry.log_page.row_filters import (
    KeyIdFilter,
    KeyNameFilter,
    ProviderFilter,
    ServedModelFilter,
    UserFilter,
)
from telemetry.log_page.saved_filters import filter_links
from telemetry.models import EntryType, LogEntry
from telemetry.paging import PAGE_MS, QueryTimeout, statement_timeout
from telemetry.querysets import EntryQuerySet, LogEntryQuerySet

TAIL = 50
REQUESTS, MESSAGES = "requests", "messages"
TOO_LONG = "The search takes too long. Choose a shorter period."
EXPORTS = {"csv": (log_as_csv, "text/csv; charset=utf-8"), "jsonl": (log_as_json_lines, "application/x-ndjson")}


class TagFilter(TextFilter):
    """Entries with a tag, as name=value, or with any value of a name."""

    title, parameter_name = "tag (name=value)", "tag"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        name, equals, value = (self.value() or "").partition("=")
        if not name:
            return entries
        assert isinstance(entries, LogEntryQuerySet)
        return entries.tagged(name, value if equals else None)


class AttemptedFilter(TextFilter):
    """Entries of requests that a provider answered, or was asked for before another one answered."""

    title, parameter_name = "attempted provider", "attempted"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        name = self.value()
        if not name:
            return entries
        assert isinstance(entries, LogEntryQuerySet)
        # The log has ids of attempts alone. 0 is no provider's.
        return entries.asking(Provider.objects.filter(name=name).values_list("pk", flat=True).first() or 0)


class TabFilter(admin.SimpleListFilter):
    """Reads the tab in the address; LogAdmin.get_queryset() applies it, and the page shows it above the list."""

    title, parameter_name = "tab", "tab"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return []

    def has_output(self) -> bool:
        return False

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        return entries


def _tab(request: HttpRequest) -> str:
    return MESSAGES if request.GET.get("tab") == MESSAGES else REQUESTS


class InfinitePaginator(ThemesPaginator):
    """Pages as the API reads them. By the name of this class, the theme knows that nothing is counted."""

    def page(self, number: int) -> Page:
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        return self._get_page(self.object_list.slice(first, first + self.per_page), number, self)


class Selection(ChangeList):
    """The rows that an address selects, of which none is read."""

    def get_results(self, request: HttpRequest) -> None:
        """Do nothing: only the list's own page shows rows of the list."""


class EntryAdmin(ReadOnlyAdmin):
    """Newest first, a page at a time, never counted."""

    unlisted: ClassVar[tuple[str, ...]]  # fields that may be long, and that PostgreSQL stores out of line
    paginator = InfinitePaginator
    show_full_result_count = False
    list_per_page = 30
    list_filter_submit = True
    list_filter_sheet = True
    list_fullwidth = True
    search_fields = ["id"]  # get_search_results() looks where the API does

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        entries = super().get_queryset(request)
        return entries if view_name(request).endswith("_change") else entries.defer(*self.unlisted)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: JsonObject | None = None
    ) -> HttpResponse:
        entry = self.get_object(request, object_id)
        context = self.details_context(request, entry) if entry is not None else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Model | None:
        """The entry, read once for a request: to find an id, PostgreSQL plans a query over all partitions."""
        entries: dict[str, Model | None] = vars(request).setdefault("_entries", {})
        if object_id not in entries:
            entries[object_id] = super().get_object(request, object_id, from_field)
        return entries[object_id]

    def details_context(self, request: HttpRequest, entry: Any) -> JsonObject:
        """The template context of an entry's page."""
        raise NotImplementedError

    def get_ordering(self, request: HttpRequest) -> tuple[str, str]:
        return f"-{self.model._default_manager.all().time_field}", "-id"

    def get_search_results(self, request: HttpRequest, entries: Any, text: str) -> tuple[Any, bool]:
        return (entries.containing(text) if text else entries), False

    def changelist_view(self, request: HttpRequest, extra_context: dict | None = None) -> HttpResponse:
        """The list; one that takes too long says so instead of holding the database."""
        try:
            context = self.list_context(request)
            with statement_timeout(PAGE_MS):
                response = super().changelist_view(request, {**(extra_context or {}), **context})
                return response.render() if hasattr(response, "render") else response
        except QueryTimeout:
            return self.took_too_long(request)

    def list_context(self, request: HttpRequest) -> JsonObject:
        """The template context of the list's page."""
        return {}

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return super().get_changelist(request, **options) if view_name(request).endswith("_changelist") else Selection

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list that the address selects, read once for a request."""
        lists: dict[tuple[str, str], ChangeList] = vars(request).setdefault("_lists", {})
        key = self.opts.label, request.GET.urlencode()
        if key not in lists:
            lists[key] = super().get_changelist_instance(request)
        return lists[key]

    def took_too_long(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the unfiltered list, or from that to the overview, with a message."""
        self.message_user(request, TOO_LONG, messages.WARNING)
        is_unfiltered = request.path == self.list_path and not request.GET
        return HttpResponseRedirect(reverse("admin:index") if is_unfiltered else self.list_path)

    @property
    def list_path(self) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def for_selection(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """An admin view that uses selected(): invalid lookups and slow queries redirect to the list."""

        @wraps(view)
        def answer(request: HttpRequest, **options: str) -> HttpResponseBase:
            try:
                return view(request, **options)
            except IncorrectLookupParameters:
                return HttpResponseRedirect(f"{self.list_path}?{ERROR_FLAG}=1")
            except QueryTimeout:
                return self.took_too_long(request)

        return self.admin_site.admin_view(answer)

    def selected_entries(self, request: HttpRequest) -> EntryQuerySet:
        """The entries that the filters and the search in the address select.

        Raises IncorrectLookupParameters and QueryTimeout.
        """
        with statement_timeout(PAGE_MS):
            entries = self.get_changelist_instance(request).queryset
        assert isinstance(entries, EntryQuerySet)
        return entries


@admin.register(LogEntry)
class LogAdmin(EntryAdmin):
    """What happened."""

    unlisted = LONG_FIELDS
    empty_message = (
        "There are no such entries. Each request adds an entry to the tab Requests, each change one to the tab Audit."
    )
    empty_page = ("admin:playground", "Open the playground")
    list_display = ["moment"]  # get_list_display() has all
    list_display_links = ["moment"]
    list_filter = [
        TabFilter,
        ("timestamp", MomentFilter),
        ("entry_type", ChoicesDropdownFilter),
        ResultFilter,
        ("outcome", ChoicesDropdownFilter),
        ("severity", ChoicesDropdownFilter),
        ("cache_status", ChoicesDropdownFilter),
        UserFilter,
        GroupFilter,
        text_filter("model", "model_name", "model"),
        ServedModelFilter,
        text_filter("alias", "alias", "alias"),
        ProviderFilter,
        AttemptedFilter,
        GuardrailFilter,
        GuardrailResultFilter,
        KeyNameFilter,
        KeyIdFilter,
        text_filter("trusted issuer", "issuer", "trusted_issuer"),
        text_filter("request id", "request", "correlation_id"),
        TagFilter,
    ]
    search_help_text = "Part of a model, a request id, a user's name, a message or a payload"
    change_form_template = "console/log_entry.html"
    list_before_template = "console/log_tools.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Requests, or messages without an entry elsewhere; entries of one type if the address names it."""
        entries = super().get_queryset(request)
        if view_name(request).endswith("_change") or request.GET.get("entry_type__exact"):
            return entries
        assert isinstance(entries, LogEntryQuerySet)
        return entries.messages() if _tab(request) == MESSAGES else entries.filter(entry_type=EntryType.WORK_REQUEST)

    def get_list_display(self, request: HttpRequest) -> list[str | Callable[[LogEntry], str]]:
        type_ = request.GET.get("entry_type__exact")
        is_messages = type_ not in (EntryType.WORK_REQUEST, EntryType.MIRROR) if type_ else _tab(request) == MESSAGES
        cells = NameCells(period_of(request.GET.dict()))
        if is_messages:
            return ["moment", "result", cells.user, "short_message"]
        names = [cells.key, cells.user, cells.model_name, cells.provider]
        return ["moment", "result", *names, "tokens", "price", "first_byte", "duration"]

    def list_context(self, request: HttpRequest) -> JsonObject:
        query, tab = request.GET.dict(), _tab(request)
        assert isinstance(request.user, User)  # the console's pages are for users
        context: JsonObject = {"tab": tab, "periods": period_links(query), "filters": filter_links(request.user, query)}
        if tab == REQUESTS:
            with suppress(IncorrectLookupParameters, GatewayError):  # the list says what is wrong
                context["histogram"] = histogram(query, self.selected_entries(request))
        return context

    @display(description="Time (UTC)", ordering="timestamp")
    def moment(self, row: LogEntry) -> str:
        return utc_time(row.timestamp, SECONDS)

    @display(description="Message")
    def short_message(self, row: LogEntry) -> str:
        return row.message if len(row.message) <= 300 else f"{row.message[:300]}…"

    @display(description="Status", ordering="outcome")
    def result(self, row: LogEntry) -> SafeString:
        """The status, and what is not usual: an error, an answer from the cache."""
        if row.entry_type not in (EntryType.WORK_REQUEST, EntryType.MIRROR):
            return Badge(row.get_severity_display(), "").html
        return result_badge(row).html

    @display(description="Duration")
    def duration(self, row: LogEntry) -> str:
        return short_duration(row.duration_ms)

    @display(description="First byte")
    def first_byte(self, row: LogEntry) -> str:
        return short_duration(row.first_byte_ms)

    @display(description="Tokens")
    def tokens(self, row: LogEntry) -> str:
        return tokens(row)

    @display(description="Cost")
    def price(self, row: LogEntry) -> str:
        return unknown_cost(row) if row.cost is None else money(row.cost, row.currency)

    def get_urls(self) -> list:
        own = [
            path("export.<str:kind>", self.for_selection(self.export), name="log-export"),
            path("tail/", self.for_selection(self.tail), name="log-tail"),
        ]
        return own + super().get_urls()

    def export(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        """The filtered entries as a streamed file; the export is an entry of the audit."""
        if kind not in EXPORTS:
            return HttpResponseRedirect(self.list_path)
        write, content_type = EXPORTS[kind]
        lines = write(self.selected_entries(request))
        headers = start_export("logs", {**filters_of(request.GET), "format": kind}, file_name=f"log.{kind}")
        return StreamingHttpResponse(lines, content_type=content_type, headers={**headers, "X-Accel-Buffering": "no"})

    def tail(self, request: HttpRequest) -> HttpResponse:
        """The newest entries; the page polls for their rows."""
        entries, problem, cells = [], "", NameCells(period_of(request.GET.dict()))
        try:
            selection = self.selected_entries(request)
            with statement_timeout(PAGE_MS):
                entries = selection.slice(0, TAIL)
        except QueryTimeout:
            problem = TOO_LONG
        part = request.headers.get("Accept-Part") == "rows"
        rows = [(entry, cells.user(entry), cells.model_name(entry)) for entry in entries]
        filters_query = with_query("", {LIST_FILTERS: request.GET.urlencode()} if request.GET else {})
        context = self.admin_site.context(request, "Live", entries=rows, problem=problem, opts=self.opts)
        context["filters_query"] = filters_query
        return TemplateResponse(request, "console/log_tail_rows.html" if part else "console/log_tail.html", context)

    def details_context(self, request: HttpRequest, entry: LogEntry) -> JsonObject:
        return entry_context(entry, period_of(request.GET.dict()), self._opened_from(request))

    def _opened_from(self, request: HttpRequest) -> LogEntryQuerySet | None:
        """The entries of the list that an entry's page was opened from; None if its address names no filters."""
        filters = request.GET.get(LIST_FILTERS)
        if not filters or "%00" in filters:  # which PostgreSQL does not take
            return None
        list_request = copy(request)
        query = {name: value for name, value in QueryDict(filters).items() if name != PAGE_VAR}
        list_request.GET, list_request.resolver_match = QueryDict(urlencode(query)), None
        try:
            with statement_timeout(PAGE_MS):
                entries = self.selected_entries(list_request)
        except (IncorrectLookupParameters, QueryTimeout):
            return None
        assert isinstance(entries, LogEntryQuerySet)
        return entries
