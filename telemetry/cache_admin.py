"""The list of stored answers in the console."""

from collections.abc import Callable

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from unfold.decorators import display

from gateway_project.console.audit import record_change
from gateway_project.console.display.money import money
from gateway_project.console.display.times import SECONDS, utc_time
from gateway_project.console.filters import MomentFilter, text_filter
from gateway_project.console.links import link
from gateway_project.console.period import ANY_TIME
from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.console.model_links import model_page
from telemetry import services
from telemetry.admin import EntryAdmin
from telemetry.log_page.cells import NameCells
from telemetry.models import CacheEntry
from telemetry.paging import PAGE_MS, statement_timeout


def moment(field: str, name: str) -> Callable[[CacheEntry], str]:
    """A column with a time; the zone is in its heading, to save width."""

    @display(description=f"{name} (UTC)", ordering=field)
    def shown(row: CacheEntry) -> str:
        value = getattr(row, field)
        return utc_time(value)

    return shown


STORED = moment("created_at", "Stored")
NAMES = NameCells(ANY_TIME)


@admin.register(CacheEntry)
class CacheAdmin(EntryAdmin):
    """Stored answers."""

    unlisted = ("response",)
    empty_message = "The cache is empty. It stores answers of providers until they expire."
    list_display = [
        STORED, NAMES.model_name, NAMES.provider, NAMES.user, "size", "hits", "saved",
        moment("last_hit_at", "Last hit"), moment("expires_at", "Expires"),
    ]  # fmt: skip
    list_display_links = [STORED]
    list_filter = [
        ("created_at", MomentFilter),
        text_filter("user", "user", "username"),
        text_filter("model", "model_name", "model"),
        text_filter("provider", "provider", "provider_name"),
    ]
    search_help_text = "Part of a model or an answer"
    change_form_template = "console/cache_entry.html"
    list_before_template = "console/cache_tools.html"

    def details_context(self, request: HttpRequest, entry: CacheEntry) -> JsonObject:
        served = entry.served_model or entry.model
        facts = [
            ("Model", link(entry.model, model_page(entry.model, None if entry.served_model else entry.provider_id))),
            ("Served by model", link(served, model_page(served, entry.provider_id))),
            ("Provider", NAMES.provider(entry)),
            ("Stored (UTC)", utc_time(entry.created_at, SECONDS)),
            ("Expires (UTC)", utc_time(entry.expires_at, SECONDS)),
            ("By", NAMES.user(entry)),
            ("Kind", "stream" if entry.chunks else "whole answer"),
            ("Size", self.size(entry)),
            ("Hits", entry.hits),
            ("Saved cost", self.saved(entry) or "unknown"),
            ("Hash", entry.request_hash),
        ]
        return {"entry": entry, "facts": facts}

    @display(description="Saved")
    def saved(self, row: CacheEntry) -> str:
        """The cost that its hits would have had at the provider."""
        return "" if row.cost is None else money(row.cost * row.hits, row.currency or "")

    @display(description="Size", ordering="size_bytes")
    def size(self, row: CacheEntry) -> str:
        return f"{row.size_bytes:,} B" if row.size_bytes < 10_000 else f"{row.size_bytes / 1024:,.0f} KiB"

    def get_urls(self) -> list:
        own = [path("purge/", self.for_selection(self.purge), name="cache-purge")]
        return own + super().get_urls()

    def purge(self, request: HttpRequest) -> HttpResponse:
        """After a confirmation, remove the filtered entries from the list and from the cache that serves them."""
        entries = self.selected_entries(request)
        back = f"{self.list_path}?{request.GET.urlencode()}"
        if request.method != "POST":
            with statement_timeout(PAGE_MS):
                count = entries[:10_001].count()
            number = f"{count:,}" if count <= 10_000 else "more than 10,000"
            effect = (
                f"This removes {_entries(number, count)} from the cache. The next identical requests go to the "
                "provider."
            )
            if not request.GET:
                effect += " No filter is set: this purges all entries."
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
            removed = services.purge_entries(entries.order_by())
        except GatewayError as error:
            self.message_user(request, error.sentence, messages.ERROR)
            return HttpResponseRedirect(back)
        record_change(request, "destroy", "cache", None, before={"removed": removed, "filters": request.GET.dict()})
        self.message_user(request, f"{_entries(f'{removed:,}', removed)} removed from the cache.")
        return HttpResponseRedirect(self.list_path)


def _entries(number: str, count: int) -> str:
    return f"{number} {'entry' if count == 1 else 'entries'}"
