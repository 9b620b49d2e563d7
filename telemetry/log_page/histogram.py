"""The histogram above the list of requests: a bar for each minute, hour or day, with its errors.

Minutes are counted in the log, for a few hours at most; hours and days are read from the usage tables, or counted in
the log where it is filtered by what these do not have. What is counted takes SCAN_MS or FILTERED_MS at most: where that
does not suffice, the bars are those of the usage, and say which filters they do not follow.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db import connection
from django.db.models import Count, Max, Q
from django.db.models.functions import TruncDay, TruncHour, TruncMinute
from django.utils import timezone

from accounts.models import Group, User
from gateway_project.console.display.times import utc_time
from gateway_project.console.period import period_of
from gateway_project.database.ids import id_in
from providers.models import Provider
from telemetry import services
from telemetry.log_page.periods import NOT_KEPT, address_of_period
from telemetry.log_page.result_filter import DENIED, ERRORS
from telemetry.models import NO_ERRORS, EntryType, LogEntry
from telemetry.paging import QueryTimeout, is_cheap, statement_timeout
from telemetry.querysets import EntryQuerySet
from telemetry.usage.statistics import UsageQuery

SCAN_MS, FILTERED_MS = 300, 100
MAX_ROWS = 200_000  # of a log on SQLite, whose queries have no time limit
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
MAX_MINUTES, MAX_HOURS, MAX_DAYS = 3 * HOUR, 4 * DAY, 400 * DAY
WIDTH, HEIGHT = 10, 60  # of a bar with its gap, and of the highest bar
# Filters that the usage tables have too.
FILTERED = ("user", "group", "provider", "key_id", "served", "result")
UNFILTERED = (*NOT_KEPT, "o", "tab")

Counts = dict[datetime, tuple[int, int]]  # requests and errors at each time


class Bar(NamedTuple):
    """A bar: `address` is the list of its time; heights and places are those of the picture."""

    title: str
    address: str
    start: str
    end: str
    x: int
    height: float
    error_height: float


class Histogram(NamedTuple):
    """`omissions` names the filters of the list that the bars do not follow."""

    bars: list[Bar]
    most: int
    unit: str
    first: str
    last: str
    omissions: str

    @property
    def width(self) -> int:
        return WIDTH * len(self.bars)


def histogram(query: Mapping[str, str], entries: EntryQuerySet) -> Histogram | None:
    """The histogram of the list that the address selects; of the last day if it names no start.

    None for a period in which nothing can lie: it begins in the future, or after its end.
    """
    start, end = _period(query)
    if start >= end:
        return None
    step = _step(end - start)
    missing = [name for name, value in query.items() if value and not _is_followed(name, value)]
    counts = _count_by_step(entries, start, end, step) if step == MINUTE or missing else None
    if counts is not None:
        return _draw(query, counts, _times(start, end, step), step, omissions="")
    step = max(step, HOUR)
    counts = _usage(query, start, end, step)
    return _draw(query, counts, _times(start, end, step), step, omissions=", ".join(map(_words, missing)))


def _is_followed(name: str, value: str) -> bool:
    """Whether the usage, which has requests alone, can be filtered so."""
    return name in UNFILTERED + FILTERED or (name, value) == ("entry_type__exact", EntryType.WORK_REQUEST)


def _period(query: Mapping[str, str]) -> tuple[datetime, datetime]:
    """From the first moment on and before the second one."""
    start, last = period_of(query)
    now = timezone.now()
    end = max(min(last or now, now) + timedelta.resolution, services.EARLIEST + DAY).astimezone(UTC)
    return max(start or end - DAY, end - MAX_DAYS), end


def _step(length: timedelta) -> timedelta:
    if length <= MAX_MINUTES:
        return MINUTE
    return HOUR if length <= MAX_HOURS else DAY


def _count_by_step(entries: EntryQuerySet, start: datetime, end: datetime, step: timedelta) -> Counts | None:
    """The counts of each minute, hour or day in the log; None if they take too long."""
    if connection.vendor == "sqlite" and (LogEntry.objects.aggregate(last=Max("pk"))["last"] or 0) > MAX_ROWS:
        return None
    at = {MINUTE: TruncMinute, HOUR: TruncHour, DAY: TruncDay}[step]("timestamp", tzinfo=UTC)
    rows = entries.between(_floor(start, step), end).order_by().annotate(at=at).values("at")
    counts = rows.annotate(requests=Count("pk"), errors=Count("pk", filter=~Q(outcome__in=NO_ERRORS)))
    if step != MINUTE and not is_cheap(counts):
        return None
    try:
        with statement_timeout(SCAN_MS if step == MINUTE else FILTERED_MS):
            return {row["at"]: (row["requests"], row["errors"]) for row in counts}
    except QueryTimeout:
        return None


def _usage(query: Mapping[str, str], start: datetime, end: datetime, step: timedelta) -> Counts:
    """The counts of each hour or day."""
    by = "hour" if step == HOUR else "day"
    period = services.period(start if step == HOUR else _floor(start, DAY), end)
    rows = services.usage(UsageQuery(*period, (by,), _filters(query)), 0, MAX_DAYS // DAY + 1).rows
    measure = {ERRORS: "errors", DENIED: "denied"}.get(query.get("result", ""), "requests")
    return {_parse_time(row[by]): (row[measure], 0 if measure == "denied" else row["errors"]) for row in rows}


def _filters(query: Mapping[str, str]) -> dict[str, object]:
    """The filters of the usage; 0 is nobody's id."""
    filters: dict[str, object] = {}
    if name := query.get("user"):
        filters["user_id"] = User.objects.filter(username=name).values_list("pk", flat=True).first() or 0
    if name := query.get("group"):
        filters["group"] = Group.objects.filter(name=name).values_list("pk", flat=True).first() or 0
    if name := query.get("provider"):
        filters["provider_id"] = Provider.objects.filter(name=name).values_list("pk", flat=True).first() or 0
    if text := query.get("key_id"):
        filters["key_id"] = id_in(text)
    if name := query.get("served"):
        filters["model"] = name
    return filters


def _parse_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _floor(moment: datetime, step: timedelta) -> datetime:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + (moment - day) // step * step


def _times(start: datetime, end: datetime, step: timedelta) -> list[datetime]:
    times, at = [], _floor(start, step)
    while at < end:
        times.append(at)
        at += step
    return times


def _draw(
    query: Mapping[str, str], counts: Counts, times: list[datetime], step: timedelta, *, omissions: str
) -> Histogram:
    most = max((counts.get(at, (0, 0))[0] for at in times), default=0)
    bars = [_bar(query, counts.get(at, (0, 0)), at, step, place, most) for place, at in enumerate(times)]
    unit = {MINUTE: "minute", HOUR: "hour", DAY: "day"}[step]
    form = "%Y-%m-%d" if step == DAY else "%Y-%m-%d %H:%M"
    first, last = (f"{at:{form}}" if step == DAY else utc_time(at) for at in (times[0], times[-1]))
    return Histogram(bars, most, unit, first, last, omissions)


def _bar(query: Mapping[str, str], count: tuple[int, int], at: datetime, step: timedelta, place: int, most: int) -> Bar:
    requests, errors = count
    end = at + step - timedelta(seconds=1)
    form = "%Y-%m-%d" if step == DAY else "%Y-%m-%d %H:%M"
    title = f"{at:{form}} UTC: {_count(requests, 'request')}, {_count(errors, 'error')}"
    scale = HEIGHT / (most or 1)
    return Bar(
        title, address_of_period(query, at, end), f"{at:%Y-%m-%dT%H:%M:%S}", f"{end:%Y-%m-%dT%H:%M:%S}", WIDTH * place,
        round(scale * requests, 2), round(scale * errors, 2),
    )  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _words(name: str) -> str:
    return {"q": "search", "request": "request id"}.get(name, name.removesuffix("__exact").replace("_", " "))
