"""What stands above a row's page: its state, and tabs that lead to what belongs to it. Lists show the state too."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString


class Badge(NamedTuple):
    """`kind` is the colour of the label: success, warning, danger, info, or '' for grey."""

    text: str
    kind: str
    note: str = ""

    @property
    def html(self) -> SafeString:
        return render_to_string("console/badge.html", {"badge": self})


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
