"""Journals and the records that go into them."""

import pytest

from gateway_project.work.stages.log import timestamp
from telemetry.journal import Journal
from telemetry.records import empty_cache_entry, empty_log_entry, written

SEGMENT = 256 * 1024


def entry(request_id, **fields):
    """A log entry as the pipeline writes it."""
    known = {"entry_type": "WorkRequest", "timestamp": timestamp(1_800_000_000.5), "correlation_id": request_id}
    return written(empty_log_entry() | known | fields)


def cached(request_hash, **fields):
    """A cache entry as the pipeline writes it."""
    known = {
        "request_hash": request_hash,
        "created_at": timestamp(1_800_000_000),
        "expires_at": timestamp(1_900_000_000),
    }
    return written(empty_cache_entry() | known | fields)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal", segment_bytes=SEGMENT)
