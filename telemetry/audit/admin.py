"""The audit in the console: its list, each entry with its changes, the export, and the verification of the chain."""

from collections.abc import Callable

from django.contrib import admin, messages
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.template.response import TemplateResponse
from django.urls import path
from unfold.decorators import display

from gateway_project.api.audit import filters_of, start_export
from gateway_project.console.display.times import EXACT, SECONDS, utc_time
from gateway_project.console.filters import MomentFilter, text_filter
from gateway_project.console.links import link
from gateway_project.console.period import Period, period_of, row_page, with_query
from gateway_project.json_types import JsonObject
from gateway_project.wording import plural
from telemetry.admin import EntryAdmin
from telemetry.audit.differences import differences
from telemetry.audit.export import audit_as_json_lines
from telemetry.audit.models import AuditEntry
from telemetry.audit.querysets import AuditQuerySet
from telemetry.audit.resource_pages import resource_page
from telemetry.audit.verification import verify_chain

# A longer chain takes more than a few seconds: manage.py audit verify reads it without a time limit.
MAX_VERIFIED = 100_000
TOO_MANY = f"The audit has more than {MAX_VERIFIED:,} entries. Verify it with: manage.py audit verify"


class NameCells:
    """What an entry names as links to pages, which get the period of the list."""

    def __init__(self, period: Period) -> None:
        self._query = period.moments()
        self._period = period

    @display(description="Actor")
    def by(self, row: AuditEntry) -> str:
        return link(row.actor, row_page("accounts_user", row.user_id, self._period))

    @display(description="Resource")
    def about(self, row: AuditEntry) -> str:
        return link(row.resource, self._page(row))

    def about_row(self, row: AuditEntry) -> str:
        """The resource with its number."""
        return link(f"{row.resource}{'' if row.resource_id is None else f' {row.resource_id}'}", self._page(row))

    def _page(self, row: AuditEntry) -> str:
        page = resource_page(row.resource, row.resource_id)
        return page and with_query(page, self._query)


@admin.register(AuditEntry)
class AuditAdmin(EntryAdmin):
    """Who did what, when and from where."""

    unlisted = ("before", "after")
    empty_message = "The audit is empty. Each login and each change adds an entry."
    list_display_links = ["moment"]
    list_filter = [
        ("timestamp", MomentFilter),
        text_filter("actor", "actor", "actor"),
        text_filter("action", "action", "action"),
        text_filter("resource", "resource", "resource"),
        text_filter("id", "resource_id", "resource_id__exact"),
        text_filter("request id", "request", "request_id"),
    ]
    search_help_text = "Part of a message, an actor, an address or a value; or a request id"
    change_form_template = "console/audit_entry.html"
    list_before_template = "console/audit_tools.html"

    @display(description="Time (UTC)", ordering="timestamp")
    def moment(self, row: AuditEntry) -> str:
        return utc_time(row.timestamp, SECONDS)

    def get_list_display(self, request: HttpRequest) -> list[str | Callable[[AuditEntry], str]]:
        cells = NameCells(period_of(request.GET.dict()))
        return ["moment", cells.by, "action", cells.about, "resource_id", "message", "address"]

    def details_context(self, request: HttpRequest, entry: AuditEntry) -> JsonObject:
        cells = NameCells(period_of(request.GET.dict()))
        facts = [
            ("Time (UTC)", utc_time(entry.timestamp, EXACT)),
            ("Actor", cells.by(entry)),
            ("Action", entry.action),
            ("Resource", cells.about_row(entry)),
            ("Message", entry.message),
            ("Address", entry.address),
            ("Request id", link(entry.request_id, with_query(self.list_path, {"request": entry.request_id}))),
            ("Hash", entry.hash),
            ("Hash before", entry.previous_hash),
        ]
        return {
            "facts": [(name, value) for name, value in facts if value],
            "differences": differences(entry.before, entry.after),
        }

    def get_urls(self) -> list:
        own = [
            path("export.jsonl", self.for_selection(self.export), name="audit-export"),
            path("verify/", self.admin_site.admin_view(self.verify), name="audit-verify"),
        ]
        return own + super().get_urls()

    def export(self, request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        """The filtered entries as a streamed file; the export is an entry of the audit itself, so it needs a button."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        entries = self.selected_entries(request)
        assert isinstance(entries, AuditQuerySet)
        headers = start_export("audit", filters_of(request.GET), file_name="audit.jsonl")
        return StreamingHttpResponse(audit_as_json_lines(entries), content_type="application/x-ndjson", headers=headers)

    def verify(self, request: HttpRequest) -> HttpResponse:
        """Verify the chain; the list shows the result."""
        if request.method != "POST":
            page = self.admin_site.context(request, "Verify the audit", opts=self.opts, limit=f"{MAX_VERIFIED:,}")
            return TemplateResponse(request, "console/audit_verify.html", page)
        self._report(request)
        return HttpResponseRedirect(self.list_path)

    def _report(self, request: HttpRequest) -> None:
        if AuditEntry.objects.order_by()[: MAX_VERIFIED + 1].count() > MAX_VERIFIED:
            return self.message_user(request, TOO_MANY, messages.WARNING)
        result = verify_chain()
        if result.problem:
            return self.message_user(request, result.problem, messages.ERROR)
        text = f"The chain holds: {plural(result.rows, 'entry', 'entries')}. The head is {result.head}."
        return self.message_user(request, text, messages.SUCCESS)
