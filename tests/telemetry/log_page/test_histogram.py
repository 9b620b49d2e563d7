"""The histogram of the log: minutes from the log, hours and days from the usage, and its periods."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.models import Func, Value
from django.utils import timezone

from accounts.models import Group
from gateway_project.console.period import period_of
from telemetry.log_page.histogram import HEIGHT, histogram
from telemetry.log_page.periods import address_of_period, period_links
from telemetry.models import LogEntry, UsageHour

pytestmark = pytest.mark.django_db
DAY = "2026-01-05"


def period(start: str, end: str, **others: str) -> dict[str, str]:
    (day, hour), (last_day, last_hour) = start.split(), end.split()
    return {
        "timestamp_from_0": day, "timestamp_from_1": hour, "timestamp_to_0": last_day, "timestamp_to_1": last_hour,
        **others,
    }  # fmt: skip


def entries():
    return LogEntry.objects.filter(entry_type="WorkRequest")


def test_minutes_are_counted_in_the_list_itself():
    for minute, outcome in ((1, "completed"), (1, "failed"), (3, "denied")):
        LogEntry.objects.create(
            entry_type="WorkRequest", outcome=outcome, timestamp=datetime(2026, 1, 5, 10, minute, 30, tzinfo=UTC)
        )
    drawn = histogram(period(f"{DAY} 10:00:00", f"{DAY} 10:04:59", model_name="m"), entries())
    assert drawn.unit == "minute"
    assert [(bar.height, bar.error_height) for bar in drawn.bars] == [
        (0, 0), (HEIGHT, HEIGHT / 2), (0, 0), (HEIGHT / 2, 0), (0, 0),
    ]  # fmt: skip
    assert drawn.bars[1].title == f"{DAY} 10:01 UTC: 2 requests, 1 error"
    assert drawn.omissions == ""
    assert drawn.first == f'<time datetime="{DAY}T10:00:00Z">{DAY} 10:00</time>'


@pytest.mark.parametrize(("end", "unit", "bars"), [(f"{DAY} 23:59:59", "hour", 24), ("2026-01-31 23:59:59", "day", 27)])
def test_hours_and_days_are_read_from_the_usage_alone(end, unit, bars, django_assert_max_num_queries):
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", user_id=7, requests=4, errors=1)
    with django_assert_max_num_queries(12) as queries:
        drawn = histogram(period(f"{DAY} 00:00:00", end), entries())
    assert not [query for query in queries.captured_queries if '"telemetry_logentry"' in query["sql"]]
    assert (drawn.unit, len(drawn.bars), drawn.most) == (unit, bars, 4)
    assert [bar.height for bar in drawn.bars if bar.height] == [HEIGHT]
    assert drawn.omissions == ""


@pytest.mark.parametrize(("end", "unit"), [(f"{DAY} 23:59:59", "hour"), ("2026-01-31 23:59:59", "day")])
def test_filters_that_the_usage_lacks_are_counted_in_the_list_itself(end, unit):
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", user_id=7, requests=4, errors=1)
    for hour, outcome in ((10, "completed"), (10, "failed"), (11, "denied")):
        LogEntry.objects.create(
            entry_type="WorkRequest", outcome=outcome, model="m", timestamp=datetime(2026, 1, 5, hour, 30, tzinfo=UTC)
        )
    LogEntry.objects.create(entry_type="WorkRequest", model="n", timestamp=datetime(2026, 1, 5, 10, 30, tzinfo=UTC))
    drawn = histogram(period(f"{DAY} 00:00:00", end, model_name="m"), entries().filter(model="m"))
    assert (drawn.unit, drawn.omissions) == (unit, "")
    titles = [bar.title.partition(": ")[2] for bar in drawn.bars if bar.height]
    assert titles == (["2 requests, 1 error", "1 request, 0 errors"] if unit == "hour" else ["3 requests, 1 error"])


def test_a_filter_that_takes_too_long_is_named(monkeypatch):
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", requests=4)
    LogEntry.objects.create(entry_type="WorkRequest", model="m", timestamp=datetime(2026, 1, 5, 10, 30, tzinfo=UTC))
    monkeypatch.setattr("telemetry.log_page.histogram.FILTERED_MS", 1)
    monkeypatch.setattr("telemetry.log_page.histogram.MAX_ROWS", -1)
    query = period(f"{DAY} 00:00:00", f"{DAY} 23:59:59", model_name="m")
    slow = (
        entries().annotate(slow=Func(Value(0.05), function="pg_sleep")) if connection.vendor == "postgresql" else None
    )
    drawn = histogram(query, entries() if slow is None else slow.filter(slow__isnull=False))
    assert (drawn.most, drawn.omissions) == (4, "model name")


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL estimates what a query costs")
def test_a_filter_that_would_take_too_long_is_not_tried(monkeypatch, django_assert_max_num_queries):
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", requests=4)
    monkeypatch.setattr("telemetry.paging.CHEAP_COST", 0)
    with django_assert_max_num_queries(10) as queries:
        drawn = histogram(period(f"{DAY} 00:00:00", f"{DAY} 23:59:59", q="m"), entries().containing("m"))
    assert drawn.most == 4
    assert [query["sql"].partition(" ")[0] for query in queries if "LIKE" in query["sql"]] == ["EXPLAIN"]


def test_the_usage_is_filtered_by_group():
    group = Group.objects.create(name="team")
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", group_ids=[group.pk], requests=4)
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", group_ids=[], requests=3)
    for name, most in (("team", 4), ("nobody", 0)):
        drawn = histogram(period(f"{DAY} 00:00:00", f"{DAY} 23:59:59", group=name), entries())
        assert (drawn.most, drawn.omissions) == (most, "")


def test_the_usage_is_filtered_by_user():
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", user_id=7, requests=4)
    drawn = histogram(period(f"{DAY} 00:00:00", f"{DAY} 23:59:59", user="nobody"), entries())
    assert (drawn.most, drawn.omissions) == (0, "")


@pytest.mark.parametrize(("name", "text"), [("key_id", "3"), ("served", "swift")])
def test_the_usage_is_filtered_by_the_key_and_the_model_of_a_tab(name, text):
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", key_id=3, model="swift", requests=4)
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", key_id=5, model="slow", requests=2)
    drawn = histogram(period(f"{DAY} 00:00:00", f"{DAY} 23:59:59", **{name: text}), entries())
    assert (drawn.most, drawn.omissions) == (4, "")


def test_the_longest_period_has_few_bars():
    drawn = histogram(period("0001-01-01 00:00:00", "9999-12-31 00:00:00"), entries())
    assert len(drawn.bars) <= 402


@pytest.mark.parametrize(
    ("start", "end"),
    [("2999-01-01 00:00:00", "2999-01-02 00:00:00"), (f"{DAY} 12:00:00", f"{DAY} 11:00:00")],
    ids=["in the future", "ends before it begins"],
)
def test_a_period_in_which_nothing_can_lie_has_none(start, end):
    """It had that of the last day."""
    assert histogram(period(start, end), entries()) is None


def test_a_bar_leads_to_its_time_and_keeps_the_filters():
    drawn = histogram(period(f"{DAY} 00:00:00", f"{DAY} 23:59:59", model_name="m", p="3"), entries())
    assert drawn.bars[10].address == "?" + "&".join(
        ["model_name=m", f"timestamp_from_0={DAY}", "timestamp_from_1=10%3A00%3A00"]
        + [f"timestamp_to_0={DAY}", "timestamp_to_1=10%3A59%3A59"]
    )


def test_presets_name_the_period_that_is_shown():
    today = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    query = dict(part.split("=") for part in address_of_period({}, today, None)[1:].replace("%3A", ":").split("&"))
    titles = [link.title for link in period_links(query)]
    assert titles == ["All", "15 min", "1 h", "Today", "Yesterday", "7 days", "This month"]
    assert "Today" in [link.title for link in period_links(query) if link.is_current]
    assert [link.title for link in period_links({}) if link.is_current] == ["All"]


def test_a_text_that_is_no_time_is_no_bound():
    assert period_of({"timestamp_from_0": "x", "timestamp_to_0": DAY, "timestamp_to_1": "y"}) == (None, None)
    start, end = period_of({"timestamp_from_0": DAY, "timestamp_to_0": DAY})
    assert end - start == timedelta(days=1) - timedelta(microseconds=1)


@pytest.mark.parametrize("microsecond", [0, 1, 999_999])
def test_the_last_second_of_a_period_belongs_to_it(console, microsecond):
    """Addresses name seconds: the list of a bar, of "Yesterday", and its export have all entries of their last one."""
    midnight = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    at = (midnight - timedelta(seconds=1)).replace(microsecond=microsecond)
    LogEntry.objects.create(entry_type="WorkRequest", timestamp=at, correlation_id="late")
    LogEntry.objects.create(entry_type="WorkRequest", timestamp=midnight, correlation_id="later")
    yesterday = next(link.address for link in period_links({}) if link.title == "Yesterday")
    minute = at.replace(second=0, microsecond=0)
    bar = histogram(period(f"{minute:%Y-%m-%d %H:%M:%S}", f"{at:%Y-%m-%d %H:%M:%S}"), entries()).bars[0]
    for selection in (yesterday, bar.address):
        rows = console.get(f"/admin/telemetry/logentry/{selection}").context["cl"].result_list
        assert [row.correlation_id for row in rows] == ["late"]
        lines = b"".join(console.get(f"/admin/telemetry/logentry/export.csv{selection}").streaming_content)
        assert (b"late," in lines, b"later," in lines) == (True, False)
    assert "1 request," in bar.title


@pytest.mark.parametrize(("hour", "is_read"), [("9:05", True), ("09:05:00", True), ("9", False)])
def test_the_period_is_read_as_the_filter_of_the_list_reads_it(console, hour, is_read):
    LogEntry.objects.create(entry_type="WorkRequest", timestamp=datetime(2026, 1, 5, 9, 30, tzinfo=UTC))
    query = period(f"2026-1-5 {hour}", "2026-1-5 10:00")
    assert period_of(query).start == (datetime(2026, 1, 5, 9, 5, tzinfo=UTC) if is_read else None)
    assert period_of({"start": "2026-1-5"}).start == datetime(2026, 1, 5, tzinfo=UTC)
    if is_read:
        page = console.get("/admin/telemetry/logentry/", query)
        assert (len(page.context["cl"].result_list), page.context["histogram"].most) == (1, 1)


@pytest.mark.parametrize(("entry_type", "number"), [("WorkRequest", 2), ("Mirror", 1)])
def test_other_types_of_entries_are_counted_in_the_list_itself(console, entry_type, number):
    """The usage has requests alone."""
    UsageHour.objects.create(hour=f"{DAY}T10:00Z", requests=2)
    for type_ in ("WorkRequest", "WorkRequest", "Mirror"):
        LogEntry.objects.create(entry_type=type_, timestamp=datetime(2026, 1, 5, 10, 30, tzinfo=UTC))
    query = period(f"{DAY} 00:00:00", f"{DAY} 23:59:59", entry_type__exact=entry_type)
    page = console.get("/admin/telemetry/logentry/", query)
    drawn = page.context["histogram"]
    assert (len(page.context["cl"].result_list), drawn.most, drawn.omissions) == (number, number, "")
