"""Journals, the records that go into them, and what takes them into the database."""

from collections import Counter

import pytest

from gateway_project.work.log.timestamps import timestamp
from telemetry.journal.files import Journal
from telemetry.journal.records import empty_cache_entry, empty_log_entry, to_record
from telemetry.journal.shipping import Shipper
from telemetry.models import LogEntry

SEGMENT = 256 * 1024


def entry(request_id, **fields):
    """A log entry as the pipeline writes it."""
    values = {"entry_type": "WorkRequest", "timestamp": timestamp(1_800_000_000.5), "correlation_id": request_id}
    return to_record(empty_log_entry() | values | fields)


def cached(request_hash, **fields):
    """A cache entry as the pipeline writes it."""
    values = {
        "request_hash": request_hash,
        "created_at": timestamp(1_800_000_000),
        "expires_at": timestamp(1_900_000_000),
    }
    return to_record(empty_cache_entry() | values | fields)


def new_shipper(journal):
    return Shipper(journal, journal.folder.parent)


def stored(**filters):
    """How often each request is in the log."""
    return Counter(LogEntry.objects.filter(**filters).values_list("correlation_id", flat=True))


def serve(journal, request_id, **fields):
    number = journal.append_start(entry(request_id))
    journal.append_end(number, entry(request_id, outcome="completed", **fields), lambda: b"{}")


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal", segment_bytes=SEGMENT)


@pytest.fixture
def shipper(journal):
    return new_shipper(journal)
