"""Recorded requests are read one by one with their times and tags, from every store."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway_project.work.what_if.traffic import requests_of
from telemetry.models import LogEntry

pytestmark = pytest.mark.either_store

BEGIN = datetime(2026, 11, 10, tzinfo=UTC)
MOMENTS = (BEGIN, BEGIN + timedelta(microseconds=1), BEGIN + timedelta(hours=13, milliseconds=250, microseconds=7))


def test_times_are_exact_and_tags_are_read(db):
    for number, moment in enumerate(MOMENTS):
        tags = {"team": f"red {number}"} if number else {}
        LogEntry.objects.create(entry_type="WorkRequest", timestamp=moment, model="m1", tags=tags, duration_ms=1500)
    rows = list(requests_of(BEGIN, BEGIN + timedelta(days=1)))
    assert [one.record.at for one in rows] == pytest.approx([one.timestamp() for one in MOMENTS], abs=1e-6)
    assert rows[0].record.at == BEGIN.timestamp()
    assert [one.tags for one in rows] == [{}, {"team": "red 1"}, {"team": "red 2"}]
    assert {one.record.seconds for one in rows} == {1.5}
