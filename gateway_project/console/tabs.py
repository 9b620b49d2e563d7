"""The tabs above a row's page: the lists and pages that show what belongs to the row."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse


class Tab(NamedTuple):
    """A link to a page below admin: with these filters; `number` of rows is None where counting would cost too much."""

    title: str
    page: str
    filters: Mapping[str, object]
    number: int | None = None

    @property
    def address(self) -> str:
        return f"{reverse(f'admin:{self.page}')}?{urlencode(self.filters)}"


def log_tab(**filters: object) -> Tab:
    return Tab("Log", "telemetry_logentry_changelist", filters)


def usage_tab(**filters: object) -> Tab:
    return Tab("Usage", "statistics", {"by": "day", **filters})
