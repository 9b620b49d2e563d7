"""Cells of the list of log entries that are more than a text."""

from unfold.decorators import display

from gateway_project.console.links import link
from gateway_project.console.period import Period, row_page
from providers.console.model_links import model_page, price_form
from telemetry.models import CacheEntry, CostStatus, LogEntry


class NameCells:
    """What an entry names, of the log or the cache, as links to pages, which get the period of the list."""

    def __init__(self, period: Period) -> None:
        self._period = period

    @display(description="User")
    def user(self, row: LogEntry | CacheEntry) -> str:
        return link(row.username, row_page("accounts_user", row.user_id, self._period))

    @display(description="Key")
    def key(self, row: LogEntry) -> str:
        return link(row.key_name, row_page("keys_apikey", row.key_id, self._period))

    @display(description="Model")
    def model_name(self, row: LogEntry | CacheEntry) -> str:
        return link(row.model, model_page(row.served_model or row.model, row.provider_id, self._period))

    @display(description="Provider")
    def provider(self, row: LogEntry | CacheEntry) -> str:
        return link(row.provider_name, row_page("providers_provider", row.provider_id, self._period))


def unknown_cost(entry: LogEntry) -> str:
    """Instead of a cost: the form for the price, if that is what is missing; '' for an entry that costs nothing."""
    if entry.lacks_price:
        return link("no price", price_form(entry.served_model or entry.model, entry.provider_id))
    return "unknown" if entry.cost_status == CostStatus.UNKNOWN else ""
