"""The lists of log and cache entries in the console. All text of an entry is hostile: templates escape it."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.paginator import Page
from django.db import connection
from django.db.models import QuerySet
from django.db.models.fields.json import KeyTransform
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse
from unfold.contrib.filters.admin import ChoicesDropdownFilter, TextFilter
from unfold.decorators import display
from unfold.paginator import InfinitePaginator as ThemesPaginator

import telemetry.guardrails.page
import telemetry.statistics_page.page  # noqa: F401 - its page
from gateway_project.console.audit import record
from gateway_project.console.filters import MomentFilter, equals
from gateway_project.console.money import exactly
from gateway_project.console.site import view_name
from gateway_project.console.tables import ReadOnlyAdmin
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.models import Provider
from telemetry import services
from telemetry.details import LONG_FIELDS, all_input, details
from telemetry.export import log_as_csv, log_as_json_lines
from telemetry.guardrails.filters import GuardrailFilter, GuardrailResultFilter
from telemetry.models import CacheEntry, EntryType, LogEntry, Outcome
from telemetry.paging import PAGE_MS, QueryTimeout, statement_timeout
from telemetry.querysets import EntryQuerySet, LogEntryQuerySet

OUTCOMES = {
    "completed": "success", "denied": "warning", "blocked": "warning", "revoked": "warning", "failed": "danger",
    "truncated": "danger", "client_closed": "info", "aborted": "danger",
}  # fmt: skip
TAIL = 50
TOO_LONG = "The search takes too long: narrow it by time."
EXPORTS = {"csv": (log_as_csv, "text/csv; charset=utf-8"), "jsonl": (log_as_json_lines, "application/x-ndjson")}


class TagFilter(TextFilter):
    """Entries with a tag, as name=value, or with any value of a name."""

    title, parameter_name = "tag (name=value)", "tag"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        name, equals, value = (self.value() or "").partition("=")
        if not name:
            return entries
        # SQLite cannot look for a part of a JSON document.
        has_value = equals and connection.features.supports_json_field_contains
        return entries.filter(tags__contains={name: value}) if has_value else _by_key(entries, name, value)


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


def _by_key(entries: QuerySet, name: str, value: str) -> QuerySet:
    # Not by a name of a lookup: those are made of two underlines, and so may be the names of tags.
    tagged = entries.filter(tags__has_key=name)
    return tagged.alias(tagged=KeyTransform(name, "tags")).filter(tagged=value) if value else tagged


class InfinitePaginator(ThemesPaginator):
    """Pages as the API reads them; the theme knows by its name that nothing is counted."""

    def page(self, number: int) -> Page:
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        return self._get_page(self.object_list.slice(first, first + self.per_page), number, self)


class EntryAdmin(ReadOnlyAdmin):
    """Newest first, a page at a time, never counted."""

    unlisted: ClassVar[tuple[str, ...]]  # fields that may be long, and that PostgreSQL stores out of line
    paginator = InfinitePaginator
    show_full_result_count = False
    list_per_page = 50
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
        context = self.details_context(entry) if entry is not None else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def details_context(self, entry: Any) -> JsonObject:
        """The template context of an entry's page."""
        raise NotImplementedError

    def get_ordering(self, request: HttpRequest) -> tuple[str, str]:
        return f"-{self.model._default_manager.all().time_field}", "-id"

    def get_search_results(self, request: HttpRequest, entries: Any, text: str) -> tuple[Any, bool]:
        return (entries.containing(text) if text else entries), False

    def changelist_view(self, request: HttpRequest, extra_context: dict | None = None) -> HttpResponse:
        """The list; one that takes too long says so instead of holding the database."""
        try:
            with statement_timeout(PAGE_MS):
                response = super().changelist_view(request, extra_context)
                return response.render() if hasattr(response, "render") else response
        except QueryTimeout:
            return self.took_too_long(request)

    def took_too_long(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the unfiltered list, with a message."""
        self.message_user(request, TOO_LONG, messages.WARNING)
        return HttpResponseRedirect(self.list_path)

    @property
    def list_path(self) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def for_selection(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """An admin view that uses selected(); invalid lookups redirect to the list, as Django's do."""

        @wraps(view)
        def answer(request: HttpRequest, **options: str) -> HttpResponseBase:
            try:
                return view(request, **options)
            except IncorrectLookupParameters:
                return HttpResponseRedirect(f"{self.list_path}?{ERROR_FLAG}=1")

        return self.admin_site.admin_view(answer)

    def selected(self, request: HttpRequest) -> EntryQuerySet:
        """The entries that the filters and the search in the address select; raises IncorrectLookupParameters."""
        entries = self.get_changelist_instance(request).get_queryset(request)
        assert isinstance(entries, EntryQuerySet)
        return entries


@admin.register(LogEntry)
class LogAdmin(EntryAdmin):
    """What happened."""

    unlisted = LONG_FIELDS
    empty_message = "The log is empty. Each request and each change adds an entry."
    list_display = [
        "moment", "user", "model_name", "provider", "result", "cache", "duration", "tokens", "price", "short_message",
    ]  # fmt: skip
    list_display_links = ["moment"]
    list_filter = [
        ("timestamp", MomentFilter),
        ("entry_type", ChoicesDropdownFilter),
        ("outcome", ChoicesDropdownFilter),
        ("severity", ChoicesDropdownFilter),
        ("cache_status", ChoicesDropdownFilter),
        equals("user", "user", "username"),
        equals("model", "model_name", "model"),
        equals("alias", "alias", "alias"),
        equals("provider", "provider", "provider_name"),
        AttemptedFilter,
        GuardrailFilter,
        GuardrailResultFilter,
        equals("key", "key", "key_name"),
        equals("request id", "request", "correlation_id"),
        TagFilter,
    ]
    search_help_text = "Part of a model, a request id, a user's name, a message or a payload"
    change_form_template = "console/log_entry.html"
    list_before_template = "console/log_tools.html"

    @display(description="Time (UTC)", ordering="timestamp")
    def moment(self, row: LogEntry) -> str:
        return f"{row.timestamp:%Y-%m-%d %H:%M:%S}"

    @display(description="User")
    def user(self, row: LogEntry) -> str:
        return row.username

    @display(description="Model")
    def model_name(self, row: LogEntry) -> str:
        return row.model

    @display(description="Provider")
    def provider(self, row: LogEntry) -> str:
        return row.provider_name

    @display(description="Cache")
    def cache(self, row: LogEntry) -> str:
        return row.cache_status

    @display(description="Message")
    def short_message(self, row: LogEntry) -> str:
        """The message, shortened; empty for a completed request, of which the other columns show everything."""
        if row.entry_type == EntryType.WORK_REQUEST and row.outcome == Outcome.COMPLETED:
            return ""
        return row.message if len(row.message) <= 90 else f"{row.message[:90]}…"

    @display(description="Outcome", label=OUTCOMES, ordering="outcome")
    def result(self, row: LogEntry) -> str:
        return row.outcome or row.severity

    @display(description="Took")
    def duration(self, row: LogEntry) -> str:
        return "" if row.duration_ms is None else f"{row.duration_ms:,.0f} ms"

    @display(description="Tokens in, out")
    def tokens(self, row: LogEntry) -> str:
        if row.input_tokens is None and row.output_tokens is None:
            return ""
        mark = " (estimated)" if row.usage_estimated else ""
        return f"{all_input(row):,}, {row.output_tokens or 0:,}{mark}"

    @display(description="Cost")
    def price(self, row: LogEntry) -> str:
        return exactly(row.cost, row.currency)

    def get_urls(self) -> list:
        own = [
            path("export.<str:kind>", self.for_selection(self.export), name="log-export"),
            path("tail/", self.for_selection(self.tail), name="log-tail"),
        ]
        return own + super().get_urls()

    def export(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        """The filtered entries as a streamed file."""
        if kind not in EXPORTS:
            return HttpResponseRedirect(self.list_path)
        write, content_type = EXPORTS[kind]
        try:
            lines = write(self.selected(request))
        except QueryTimeout:
            return self.took_too_long(request)
        response = StreamingHttpResponse(lines, content_type=content_type)
        response.headers["Content-Disposition"] = f'attachment; filename="log.{kind}"'
        response.headers["X-Accel-Buffering"] = "no"
        return response

    def tail(self, request: HttpRequest) -> HttpResponse:
        """The newest entries; the page polls for their rows."""
        entries, problem = [], ""
        try:
            with statement_timeout(PAGE_MS):
                entries = self.selected(request).slice(0, TAIL)
        except QueryTimeout:
            problem = TOO_LONG
        part = request.headers.get("Accept-Part") == "rows"
        context = self.admin_site.context(request, "Live", entries=entries, problem=problem, opts=self.opts)
        return TemplateResponse(request, "console/log_tail_rows.html" if part else "console/log_tail.html", context)

    def details_context(self, entry: LogEntry) -> JsonObject:
        return details(entry)


def moment(field: str, name: str) -> Any:
    """A column with a time; the zone is in its heading, to save width."""

    @display(description=f"{name} (UTC)", ordering=field)
    def shown(row: CacheEntry) -> str:
        value = getattr(row, field)
        return f"{value:%Y-%m-%d %H:%M}" if value else ""

    return shown


STORED = moment("created_at", "Stored")


@admin.register(CacheEntry)
class CacheAdmin(EntryAdmin):
    """Stored answers."""

    unlisted = ("response",)
    empty_message = "The cache is empty. Answers of providers are stored here until they expire."
    list_display = [
        STORED, "model", "provider_name", "username", "size", "hits", "saved",
        moment("last_hit_at", "Last hit"), moment("expires_at", "Expires"),
    ]  # fmt: skip
    list_display_links = [STORED, "model"]
    list_filter = [
        ("created_at", MomentFilter),
        equals("user", "user", "username"),
        equals("model", "model_name", "model"),
        equals("provider", "provider", "provider_name"),
    ]
    search_help_text = "Part of a model or an answer"
    change_form_template = "console/cache_entry.html"
    list_before_template = "console/cache_tools.html"

    def details_context(self, entry: CacheEntry) -> JsonObject:
        facts = [
            ("Model", entry.model),
            ("Served by model", entry.served_model or entry.model),
            ("Provider", entry.provider_name),
            ("Stored (UTC)", f"{entry.created_at:%Y-%m-%d %H:%M:%S}"),
            ("Expires (UTC)", f"{entry.expires_at:%Y-%m-%d %H:%M:%S}"),
            ("By", entry.username),
            ("Kind", "stream" if entry.chunks else "whole answer"),
            ("Size", self.size(entry)),
            ("Hits", entry.hits),
            ("Saved cost", self.saved(entry) or "unknown"),
            ("Hash", entry.request_hash),
        ]
        return {"entry": entry, "facts": facts}

    @display(description="Saved")
    def saved(self, row: CacheEntry) -> str:
        """What its hits would have cost at the provider."""
        return exactly(row.cost and row.cost * row.hits, row.currency or "")

    @display(description="Size", ordering="size_bytes")
    def size(self, row: CacheEntry) -> str:
        return f"{row.size_bytes:,} B" if row.size_bytes < 10_000 else f"{row.size_bytes / 1024:,.0f} KiB"

    def get_urls(self) -> list:
        own = [path("purge/", self.for_selection(self.purge), name="cache-purge")]
        return own + super().get_urls()

    def purge(self, request: HttpRequest) -> HttpResponse:
        """After a confirmation, remove the filtered entries from the list and from the cache that serves them."""
        entries = self.selected(request)
        back = f"{self.list_path}?{request.GET.urlencode()}"
        if request.method != "POST":
            try:
                with statement_timeout(PAGE_MS):
                    count = entries[:10_001].count()
            except QueryTimeout:
                return self.took_too_long(request)
            number = f"{count:,}" if count <= 10_000 else "more than 10,000"
            effect = (
                f"Removes {_entries(number, count)} from the cache. The next identical requests go to the provider."
            )
            if not request.GET:
                effect += " No filter is set: these are all entries."
            context = self.admin_site.context(
                request,
                f"Purge {_entries(number, count)}",
                effect=effect,
                back=back,
                opts=self.opts,
                row="cache entries",
            )
            return TemplateResponse(request, "console/confirm.html", context)
        try:
            services.complete_cache_list()
            removed = services.purge(entries.order_by())
        except GatewayError as error:
            self.message_user(request, error.sentence, messages.ERROR)
            return HttpResponseRedirect(back)
        record(request, "destroy", "cache", None, before={"removed": removed, "filters": request.GET.dict()})
        self.message_user(request, f"{_entries(f'{removed:,}', removed)} removed from the cache.")
        return HttpResponseRedirect(self.list_path)


def _entries(number: str, count: int) -> str:
    return f"{number} {'entry' if count == 1 else 'entries'}"
