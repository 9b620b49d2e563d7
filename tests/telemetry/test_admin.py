"""The browsers of log and cache, asked for what cannot be read: nothing is taken for everything."""

from datetime import UTC, datetime

import pytest

from telemetry.models import CacheEntry, LogEntry

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
UNREADABLE = [
    "from_0=garbage&{}from_1=",
    "from_0=2030-13-01&{}from_1=00:00",
    "from_0=01.02.2100",
    "from_0=2100-01-01&{}from_1=noon",
    "from_0=&{}from_1=12:00",
    "to_0=2030-02-30",
]
CACHE, LOG = "/admin/telemetry/cacheentry/", "/admin/telemetry/logentry/"


@pytest.fixture
def entries() -> list[CacheEntry]:
    """An answer of each of three days, at noon."""
    moments = [datetime(2020, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)]
    return [CacheEntry.objects.create(request_hash=f"hash-{moment.day}", created_at=moment) for moment in moments]


def query(field: str, filtered: str) -> str:
    return f"{field}_{filtered.replace('{}', f'{field}_')}"


@pytest.mark.parametrize("filtered", UNREADABLE)
def test_a_date_that_cannot_be_read_selects_nothing(console, entries, filtered):
    LogEntry.objects.create(message="old", timestamp=datetime(2001, 1, 1, tzinfo=UTC))
    for page in (CACHE, f"{CACHE}purge/"):
        for send in (console.get, console.post):
            answer = send(f"{page}?{query('created_at', filtered)}")
            assert (answer.status_code, answer.url) == (302, f"{CACHE}?e=1"), page
    for page in ("", "tail/", "export.csv", "export.jsonl"):
        answer = console.get(f"{LOG}{page}?{query('timestamp', filtered)}")
        assert (answer.status_code, answer.url) == (302, f"{LOG}?e=1"), page
    assert CacheEntry.objects.count() == len(entries)
    assert "not a valid date and time" in console.get(f"{LOG}?e=1").text


@pytest.mark.parametrize(
    ("filtered", "result"),
    [
        ("from_0=2100-01-01&{}from_1=", 0),
        ("from_0=2020-01-02&{}from_1=", 2),
        ("from_0=2020-01-02", 2),
        ("to_0=2020-01-02&{}to_1=", 2),
        ("from_0=2020-01-02&{}to_0=2020-01-02", 1),
        ("from_0=2020-01-02&{}from_1=12:00:01", 1),
        ("to_0=2020-01-02&{}to_1=11:59", 1),
        ("from_0=&{}from_1=&{}to_0=&{}to_1=", 3),
    ],
)
def test_a_day_without_a_time_is_the_whole_day(console, entries, filtered, result):
    address = f"{CACHE}purge/?{query('created_at', filtered)}"
    assert f"Purge {result} {'entry' if result == 1 else 'entries'}" in console.get(address).text


def test_a_purge_of_everything_says_that_it_is_one(console, entries):
    assert "No filter is set: this purges all entries." in console.get(f"{CACHE}purge/").text
    assert "No filter is set" not in console.get(f"{CACHE}purge/?user=ann").text


def test_a_purge_leaves_what_the_days_leave_out(console, entries):
    console.post(f"{CACHE}purge/?created_at_to_0=2020-01-02&created_at_to_1=")
    assert list(CacheEntry.objects.all()) == entries[2:]


def test_an_export_holds_what_the_days_select(console):
    for year in (2001, 2021):
        LogEntry.objects.create(
            entry_type="WorkRequest", message=f"of {year}", timestamp=datetime(year, 1, 1, tzinfo=UTC)
        )
    lines = console.get(f"{LOG}export.jsonl?timestamp_from_0=2020-01-01&timestamp_from_1=").getvalue().decode()
    assert "of 2021" in lines
    assert "of 2001" not in lines


@pytest.mark.parametrize(
    ("days", "text"),
    [("start=2020-01-02&end=2020-01-01", "Must be before the end."), ("end=0001-01-01", "Must not be before ")],
)
def test_what_is_wrong_with_the_days_is_said_in_the_forms_own_words(console, days, text):
    assert text in console.get(f"/admin/statistics/?{days}").text
