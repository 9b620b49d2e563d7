"""The log in the console, where the database takes too long: it says so, and holds nobody."""

import time

import pytest
from django.db import connection
from django.db.models import QuerySet

from telemetry.admin import EntryAdmin, LogAdmin
from telemetry.export import log_as_csv
from telemetry.models import CacheEntry, LogEntry
from telemetry.paging import QueryTimeout
from tests.support.pace import bound

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL stops a statement"),
]
TOLD = "The search takes too long. Choose a shorter period."


@pytest.fixture
def slow(monkeypatch) -> QuerySet:
    """Entries of which the database takes seconds to find each, for pages that wait for a tenth of one."""
    LogEntry.objects.create(message="slow", entry_type="WorkRequest")
    CacheEntry.objects.create(request_hash="slow")
    for name in ("telemetry.admin.PAGE_MS", "telemetry.cache_admin.PAGE_MS", "telemetry.export.BATCH_MS"):
        monkeypatch.setattr(name, 100)
    usual = LogAdmin.selected_entries
    monkeypatch.setattr("telemetry.admin.EntryAdmin.selected_entries", lambda *given: _slow(usual(*given)))
    return _slow(LogEntry.objects.all())


def _slow(entries: QuerySet) -> QuerySet:
    return entries.extra(where=["pg_sleep(5) IS NOT NULL"])


@pytest.mark.parametrize("table", ["logentry", "cacheentry"])
def test_a_list_leads_to_all_entries_within_its_time(console, slow, monkeypatch, table):
    queryset = EntryAdmin.get_queryset
    monkeypatch.setattr(EntryAdmin, "get_queryset", lambda *given: _slow(queryset(*given)))
    begun = time.monotonic()
    answer = console.get(f"/admin/telemetry/{table}/?user=ann")
    assert answer["Location"] == f"/admin/telemetry/{table}/"
    assert time.monotonic() - begun < bound(3)


def test_the_tail_says_so_in_its_place(console, slow):
    assert TOLD in console.get("/admin/telemetry/logentry/tail/").text


@pytest.mark.parametrize("path", ["logentry/export.csv", "logentry/export.jsonl", "cacheentry/purge/"])
def test_what_is_no_page_leads_back_to_the_list(console, slow, path):
    answer = console.get(f"/admin/telemetry/{path}", follow=True)
    assert TOLD in answer.text
    assert answer.redirect_chain[0][0] == f"/admin/telemetry/{path.split('/')[0]}/"


def test_an_export_that_stalls_later_breaks_off(slow, monkeypatch):
    monkeypatch.setattr("telemetry.export.BATCH", 1)
    LogEntry.objects.create(message="quick")
    lines = log_as_csv(LogEntry.objects.extra(where=["message = 'quick' OR pg_sleep(5) IS NOT NULL"]))
    assert b"timestamp" in next(lines)
    assert b"quick" in next(lines)
    with pytest.raises(QueryTimeout):
        next(lines)
