"""The period of the list of log entries: as its address names it, and links to the usual ones."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from django.utils import timezone

from gateway_project.console.period import MOMENT_NAMES, Period, period_of

NOT_KEPT = (*MOMENT_NAMES, "p", "e")


class Link(NamedTuple):
    title: str
    address: str
    is_current: bool = False


def address_of_period(query: Mapping[str, str], start: datetime | None, end: datetime | None) -> str:
    """The same list with another period; without one if both are None."""
    filters = {name: value for name, value in query.items() if name not in NOT_KEPT}
    return f"?{urlencode(filters | Period(start, end).moments())}"


def period_links(query: Mapping[str, str]) -> list[Link]:
    """Links to the usual periods; the present one is recognized to the minute."""
    now, (start, end) = timezone.now().astimezone(UTC), period_of(query)
    links = [Link("All", address_of_period(query, None, None), start is None and end is None)]
    for title, first, last in _usual_periods(now):
        is_current = (_minute(start), _minute(end)) == (_minute(first), _minute(last))
        links.append(Link(title, address_of_period(query, first, last), is_current))
    return links


def _minute(moment: datetime | None) -> datetime | None:
    return moment and moment.replace(second=0, microsecond=0)


def _usual_periods(now: datetime) -> Iterator[tuple[str, datetime, datetime | None]]:
    midnight, second = now.replace(hour=0, minute=0, second=0, microsecond=0), timedelta(seconds=1)
    yield "15 min", now - timedelta(minutes=15), None
    yield "1 h", now - timedelta(hours=1), None
    yield "Today", midnight, None
    yield "Yesterday", midnight - timedelta(days=1), midnight - second
    yield "7 days", midnight - timedelta(days=6), None
    yield "This month", midnight.replace(day=1), None
