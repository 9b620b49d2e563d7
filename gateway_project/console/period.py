"""The period that a page shows, as its address names it, and as the pages that it links to read it. All in UTC.

Lists of moments have `timestamp_from_0` (a day), `timestamp_from_1` (a time) and the same with `to`; statistics have
whole days, `start` and `end`. The page of a row takes either, and hands the period on to its tabs.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import NamedTuple
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from gateway_project.console.display.paths import row_path

LIST_FILTERS = "_changelist_filters"  # Django hands on the address of a list by it
PAGE_PERIOD = "page_period"  # an attribute of a row: the period of the page that shows it
MOMENT_NAMES = tuple(f"timestamp_{side}_{part}" for side in ("from", "to") for part in (0, 1))
USUAL_TIMES = {"from": time.min, "to": time.max}  # of a bound without a time


class Period(NamedTuple):
    """From the first moment to the last one; None where it is open."""

    start: datetime | None = None
    end: datetime | None = None

    def moments(self) -> dict[str, str]:
        """The parameters of a list of moments."""
        sides = {"from": self.start, "to": self.end}
        return {
            f"timestamp_{side}_{part}": f"{moment:{form}}"
            for side, moment in sides.items()
            if moment is not None
            for part, form in enumerate(("%Y-%m-%d", "%H:%M:%S"))
        }

    def days(self) -> dict[str, str]:
        """The parameters of statistics."""
        sides = {"start": self.start, "end": self.end}
        return {name: f"{moment:%Y-%m-%d}" for name, moment in sides.items() if moment is not None}


ANY_TIME = Period()


def period_of(query: Mapping[str, str]) -> Period:
    """The period in the address, or in that of the list that a row was opened from; None stands for an open side."""
    query = QueryDict(query.get(LIST_FILTERS, "")).dict() | dict(query)
    moments = Period(_moment(query, "from"), _moment(query, "to"))
    if moments != ANY_TIME:
        return moments
    return Period(_day(query, "start", time.min), _day(query, "end", time.max))


def row_page(page: str, row_id: int | None, period: Period) -> str:
    """The page of a row below admin, which hands the period on; '' without a row."""
    return "" if row_id is None else with_query(row_path(page, row_id), period.moments())


def with_query(path: str, query: Mapping[str, object]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def moment_of(day: str, hour: str, side: str) -> datetime | None:
    """A bound ("from" or "to") as somebody wrote it; None without a day. Raises Django's ValidationError.

    A day without a time counts from its beginning, or to its end. So does the second of an upper bound: forms and
    addresses have no fractions.
    """
    date = forms.DateField(required=bool(hour.strip())).clean(day)
    if not date:
        return None
    moment = datetime.combine(date, forms.TimeField(required=False).clean(hour) or USUAL_TIMES[side], UTC)
    ends_with_second = side == "to" and moment.microsecond == 0
    return moment.replace(microsecond=time.max.microsecond) if ends_with_second else moment


def _moment(query: Mapping[str, str], side: str) -> datetime | None:
    day, hour = (query.get(f"timestamp_{side}_{part}", "") for part in (0, 1))
    try:
        return moment_of(day, hour, side)
    except ValidationError:
        return None


def _day(query: Mapping[str, str], name: str, at: time) -> datetime | None:
    try:
        day = forms.DateField(required=False).clean(query.get(name, ""))
    except ValidationError:
        return None
    return datetime.combine(day, at, UTC) if day else None
