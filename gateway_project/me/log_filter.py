"""What narrows a list of requests: days, result and model. All of it is in the address."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from django import forms
from django.db.models import Q
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from gateway_project.console.display.widgets import NativeSelect
from gateway_project.console.period import period_of
from telemetry.log_page.result_filter import RESULTS, entries_with_result
from telemetry.models import LogEntry
from telemetry.querysets import LogEntryQuerySet, newest_of

MAX_SEARCHED = 10_000  # entries that are looked at, the newest: a list of everything reads no more


class PeriodLink(NamedTuple):
    title: str
    query: str
    is_current: bool


class PeriodFilter(forms.Form):
    """The days of a list of requests."""

    start = forms.DateField(
        label="From (UTC)", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"})
    )
    end = forms.DateField(label="To (UTC)", required=False, widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}))

    oldest: datetime | None = None  # where the search ends before the period begins

    @property
    def query(self) -> dict[str, str]:
        """The filters that are set, as the address has them."""
        return {name: self.data[name] for name in self.fields if self.data.get(name)}

    def select(self, entries: LogEntryQuerySet[LogEntry]) -> LogEntryQuerySet[LogEntry]:
        """The entries that the form selects; none if a filter is wrong."""
        return entries.between(*period_of(self.query)) if self.is_valid() else entries.none()

    def periods(self) -> Iterator[PeriodLink]:
        """Links to the usual periods, with the other filters as they are."""
        today = timezone.now().astimezone(UTC).date()
        yesterday = today - timedelta(days=1)
        others = {name: value for name, value in self.query.items() if name not in ("start", "end")}
        for title, days in (
            ("All", {}),
            ("Today", {"start": today}),
            ("Yesterday", {"start": yesterday, "end": yesterday}),
            ("7 days", {"start": today - timedelta(days=6)}),
            ("This month", {"start": today.replace(day=1)}),
        ):
            query = {name: str(day) for name, day in days.items()} | others
            yield PeriodLink(title, f"?{urlencode(query)}", query == self.query)


class RequestFilter(PeriodFilter):
    """The filters of the requests of one user, whose newest are found by an index."""

    result = forms.ChoiceField(choices=[("", "All"), *RESULTS], required=False, widget=NativeSelect)
    model = forms.CharField(max_length=200, required=False, widget=UnfoldAdminTextInputWidget)

    def select(self, entries: LogEntryQuerySet[LogEntry]) -> LogEntryQuerySet[LogEntry]:
        entries = super().select(entries)
        if not self.is_valid() or not (self.cleaned_data["result"] or self.cleaned_data["model"]):
            return entries
        times = entries.newest_first().values_list("timestamp", flat=True)
        self.oldest = next(iter(newest_of(times, MAX_SEARCHED, MAX_SEARCHED + 1)), None)
        matches = entries.between(start=self.oldest).filter(self._condition())
        return entries_with_result(matches, self.cleaned_data["result"])

    def _condition(self) -> Q:
        """The model that was asked for, or that has served the request."""
        model = self.cleaned_data["model"]
        return Q(model__iexact=model) | Q(served_model__iexact=model) if model else Q()
