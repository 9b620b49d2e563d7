"""Previous and Next on the page of an entry: they stay in the list that it was opened from."""

from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from django.db import connection

from telemetry.models import LogEntry

pytestmark = pytest.mark.django_db
LOG = "/admin/telemetry/logentry/"


@pytest.fixture
def entries() -> list[LogEntry]:
    """Three requests, the second of a stranger."""
    return [
        LogEntry.objects.create(
            entry_type="WorkRequest", username=name, timestamp=datetime(2026, 1, 5, 10, minute, tzinfo=UTC)
        )
        for minute, name in enumerate(("ann", "stranger", "ann"))
    ]


def links(page) -> tuple[int | None, int | None]:
    return page.context["previous_entry"], page.context["next_entry"]


@pytest.mark.parametrize("others", ["", "&p=7", "&o=1", "&timestamp_from_0=2026-01-05"])
def test_they_skip_what_the_list_leaves_out_and_hand_its_filters_on(console, entries, others):
    filters = f"_changelist_filters={quote(f'user=ann{others}', safe='')}"
    first, stranger, last = (entry.pk for entry in entries)
    page = console.get(f"{LOG}{first}/change/?{filters}")
    assert links(page) == (None, last)
    assert f'href="{LOG}{last}/change/?{filters}"' in page.text
    page = console.get(f"{LOG}{last}/change/?{filters}")
    assert links(page) == (first, None)
    assert f'href="{LOG}{first}/change/?{filters}"' in page.text
    assert links(console.get(f"{LOG}{first}/change/")) == (None, stranger)


def test_the_list_itself_is_not_read(console, entries, django_assert_max_num_queries):
    with django_assert_max_num_queries(100) as queries:
        console.get(f"{LOG}{entries[0].pk}/change/?_changelist_filters=user%3Dann")
    assert [query["sql"] for query in queries if "LIMIT 30" in query["sql"]] == []


def test_filters_that_cannot_be_read_leave_all_requests(console, entries):
    first, stranger, _ = (entry.pk for entry in entries)
    page = console.get(f"{LOG}{first}/change/?_changelist_filters=timestamp_from_0%3Dgarbage")
    assert (page.status_code, links(page)) == (200, (None, stranger))


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL stops a statement")
def test_a_list_that_takes_too_long_leaves_all_requests(console, entries, monkeypatch):
    monkeypatch.setattr("telemetry.log_page.neighbours.NEIGHBOURS_MS", 100)
    slow = LogEntry.objects.extra(where=["pg_sleep(5) IS NOT NULL"])
    monkeypatch.setattr("telemetry.admin.EntryAdmin.selected_entries", lambda *arguments: slow)
    first, stranger, _ = (entry.pk for entry in entries)
    page = console.get(f"{LOG}{first}/change/?_changelist_filters=user%3Dann")
    assert links(page) == (None, stranger)


def test_they_are_found_however_far_apart(console):
    days = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC), datetime(2026, 1, 9, tzinfo=UTC))
    moments = (*days, datetime(2026, 6, 1, tzinfo=UTC))
    rows = [LogEntry.objects.create(entry_type="WorkRequest", timestamp=moment).pk for moment in moments]
    for before, entry, after in zip([None, *rows], rows, [*rows[1:], None], strict=False):
        assert links(console.get(f"{LOG}{entry}/change/")) == (before, after)
