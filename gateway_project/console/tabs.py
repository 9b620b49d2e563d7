"""The tabs above a row's page: the lists and pages that show what belongs to the row."""

from collections.abc import Mapping
from typing import NamedTuple

from django.urls import reverse

from gateway_project.console.period import Period, with_query

LOG, STATISTICS, AUDIT = "telemetry_logentry_changelist", "statistics", "telemetry_auditentry_changelist"
# The pages that show a period, or hand it on to the pages of their rows, and how they read it.
PERIODS = {
    LOG: Period.moments,
    STATISTICS: Period.days,
    "accounts_group_changelist": Period.moments,
    "accounts_user_change": Period.moments,
    "accounts_user_changelist": Period.moments,
    "keys_apikey_changelist": Period.moments,
    "providers_model_changelist": Period.moments,
    "providers_provider_change": Period.moments,
}


class Tab(NamedTuple):
    """A link to a page below admin: with these filters; `number` of rows is None where counting would cost too much."""

    title: str
    page: str
    filters: Mapping[str, object]
    number: int | None = None
    row_id: int | None = None  # for a page of one row
    anchor: str = ""

    @property
    def address(self) -> str:
        path = reverse(f"admin:{self.page}", args=() if self.row_id is None else (self.row_id,))
        return f"{with_query(path, self.filters)}{f'#{self.anchor}' if self.anchor else ''}"

    def for_period(self, period: Period) -> "Tab":
        """The same tab for a period, if its page shows one or hands it on."""
        if self.page not in PERIODS:
            return self
        return self._replace(filters={**self.filters, **PERIODS[self.page](period)})


def log_tab(**filters: object) -> Tab:
    return Tab("Log", LOG, filters)


def usage_tab(**filters: object) -> Tab:
    return Tab("Usage", STATISTICS, {"by": "day", **filters})


def audit_tab(resource: str, row_id: object) -> Tab:
    """Who changed a row of a resource, and what."""
    return Tab("Audit", AUDIT, {"resource": resource, "resource_id": row_id})
