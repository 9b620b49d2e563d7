"""The query of the statistics page: what the address says, as form fields, as filters and as links to other queries."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from gateway_project.console.period import Period, period_of
from gateway_project.database.ids import MAX_ID
from telemetry import services
from telemetry.statistics_page.filters import (
    FILTERS,
    ID_FILTERS,
    TEXT_FILTERS,
    check_tag,
    filter_value,
    name_of_row,
)
from telemetry.usage.statistics import DIMENSIONS, SORTED_BY, UsageQuery

TIMES = ("hour", "day")
NEW_FILTER = ("add", "value")  # the fields that add a filter; no address has them
# The measures that a chart can show; rows are sorted by it (the cache share: by requests) unless they are times.
CHARTS = {
    "requests": "Requests",
    "errors": "Errors",
    "attempts": "Attempts",
    "failed_attempts": "Failed attempts",
    "cache_hits": "From the cache",
    "cache_share": "From the cache (%)",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "saved_tokens": "Tokens saved",
    "cost": "Cost",
    "p50_ms": "Latency p50 (ms)",
    "p95_ms": "Latency p95 (ms)",
    "average_first_byte_ms": "First byte, average (ms)",
}


class Link(NamedTuple):
    title: str
    address: str
    is_current: bool = False


class UsageForm(forms.Form):
    """Full days (UTC), one dimension or two, the measure of the chart, and a filter to add.

    The filters that are set, and the order, are hidden fields.
    """

    start = forms.DateField(label="From", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    end = forms.DateField(label="To", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))
    by = forms.ChoiceField(
        choices=[(name, name.capitalize()) for name in DIMENSIONS],
        required=False,
        initial="day",
        widget=UnfoldAdminSelectWidget,
    )
    then = forms.ChoiceField(
        label="Then by",
        choices=[("", "None"), *((name, name.capitalize()) for name in DIMENSIONS if name not in TIMES)],
        required=False,
        widget=UnfoldAdminSelectWidget,
    )
    chart = forms.ChoiceField(choices=CHARTS.items(), required=False, widget=UnfoldAdminSelectWidget)
    add = forms.ChoiceField(
        label="Add a filter",
        choices=[("", "None"), *((name, name.capitalize()) for name in FILTERS)],
        required=False,
        widget=UnfoldAdminSelectWidget,
    )
    value = forms.CharField(
        label="Name or id",
        max_length=1000,
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "Tags: name=value"}),
    )
    sort = forms.ChoiceField(
        choices=[(sign + name, name) for name in (*SORTED_BY, *DIMENSIONS) for sign in ("", "-")],
        required=False,
        widget=forms.HiddenInput,
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._addresses: dict[tuple[tuple[str, object], ...], str] = {}  # each row of a table has those of its columns
        for name in ID_FILTERS:
            self.fields[name] = forms.IntegerField(
                min_value=1, max_value=MAX_ID, required=False, widget=forms.HiddenInput
            )
        for name in TEXT_FILTERS:
            self.fields[name] = forms.CharField(max_length=1000, strip=False, required=False, widget=forms.HiddenInput)

    def clean_tag(self) -> str:
        return check_tag(self.cleaned_data["tag"])

    def clean_value(self) -> int | str:
        """The value of the filter that is added, as the address has it."""
        name, text = self.cleaned_data.get("add"), self.cleaned_data["value"]
        if text and not name:
            raise forms.ValidationError("Choose a filter.")
        if name and not text:
            raise forms.ValidationError("Enter a value for the filter.")
        return filter_value(name, text) if name else ""

    @property
    def has_query(self) -> bool:
        """Whether all is valid but perhaps the filter to add."""
        return self.errors.keys() <= set(NEW_FILTER)

    @property
    def new_filter(self) -> dict[str, object]:
        """The filter that a valid form adds, by its name in the address; empty for none."""
        name = self.cleaned_data.get("add")
        return {name: self.cleaned_data["value"]} if name else {}

    @property
    def measure(self) -> str:
        return self.cleaned_data.get("chart") or "requests"

    @cached_property
    def period(self) -> Period:
        """The period that the pages of rows get."""
        return period_of(self.data)

    @property
    def dimensions(self) -> tuple[str, ...]:
        first, second = self.cleaned_data.get("by") or "day", self.cleaned_data.get("then")
        return (first, second) if second and second != first else (first,)

    def usage_query(self) -> UsageQuery:
        """The query of the form; raises the API's ValidationError for a period that ends before it begins."""
        first, last = (self.cleaned_data.get(name) for name in ("start", "end"))
        start, end = services.period(
            first and datetime.combine(first, time.min, UTC), last and datetime.combine(last, time.max, UTC)
        )
        return UsageQuery(start=start, end=end, by=self.dimensions, filters=self._filters(), sort=self._order())

    def _filters(self) -> dict[str, object]:
        values = self.cleaned_data
        filters = {query_name: values[name] for name, query_name in ID_FILTERS.items() if values.get(name)}
        filters |= {name: values[name] for name in TEXT_FILTERS[:2] if values.get(name)}
        if tag := values.get("tag"):
            name, _, value = tag.partition("=")
            filters["tag"] = (name, value)
        return filters

    def _order(self) -> str:
        sort = self.cleaned_data.get("sort") or ""
        if sort.removeprefix("-") in (*SORTED_BY, *self.dimensions):
            return sort
        measure = self.measure if self.measure in SORTED_BY else "requests"
        return self.dimensions[0] if self.dimensions[0] in TIMES else f"-{measure}"

    # -- Links to other queries ---------------------------------------------------------------------------

    def address(self, **changes: object) -> str:
        """The address of this query with some parameters changed; those that are empty are left out."""
        key = tuple(changes.items())
        if key not in self._addresses:
            values = {name: self.data.get(name) for name in self.fields if name not in NEW_FILTER} | changes
            query = {name: value for name, value in values.items() if value not in ("", None)}
            self._addresses[key] = f"?{urlencode(query)}"
        return self._addresses[key]

    def dimension_headings(self) -> Iterator[Link]:
        """The names of the dimensions, with the address of the table sorted by them."""
        for name in self.dimensions:
            sort = f"-{name}" if self._order() == name else name
            yield Link(name.capitalize(), self.address(sort=sort))

    def periods(self) -> Iterator[Link]:
        """Links to the usual periods."""
        today = timezone.now().astimezone(UTC).date()
        for title, first, last in _periods(today):
            is_current = (self.data.get("start"), self.data.get("end")) == (str(first), str(last))
            yield Link(title, self.address(start=first, end=last), is_current)

    def chosen_filters(self) -> Iterator[Link]:
        """What the query is limited to, each with the address without it."""
        for name in FILTERS:
            if value := self.cleaned_data.get(name):
                label = name_of_row(name, value) if name in ID_FILTERS else value
                yield Link(f"{name.capitalize()}: {label}", self.address(**{name: ""}))


def _periods(today: date) -> Iterator[tuple[str, date, date]]:
    yesterday = today - timedelta(days=1)
    yield "Today", today, today
    yield "Yesterday", yesterday, yesterday
    yield "7 days", today - timedelta(days=6), today
    yield "30 days", today - timedelta(days=29), today
    yield "This month", today.replace(day=1), today
    last_month = today.replace(day=1) - timedelta(days=1)
    yield "Last month", last_month.replace(day=1), last_month
