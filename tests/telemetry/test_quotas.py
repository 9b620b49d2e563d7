"""What the log tells about quotas whose counts were lost."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from telemetry.models import LogEntry
from telemetry.quotas import Used, used

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)
BEGIN = datetime(2026, 5, 1, tzinfo=UTC).timestamp()


def entry(minutes=0, **values):
    """An entry of a request that began so many minutes before noon and took a second."""
    given = {"entry_type": "WorkRequest", "timestamp": NOON - timedelta(minutes=minutes), "duration_ms": 1000.0}
    asked = {"user_id": 1, "key_id": 2, "provider_id": 3, "group_ids": [4, 45], "attempts": 1}
    spent = {"input_tokens": 10, "cache_read_tokens": 5, "output_tokens": 20, "cost": Decimal("0.000000000123")}
    return LogEntry.objects.create(**(given | asked | spent | values))


def asked(subject, subject_id, until=NOON + timedelta(hours=1)):
    return used(subject, subject_id, begin=BEGIN, until=until.timestamp())


@pytest.mark.parametrize(("subject", "subject_id"), [("user", 1), ("key", 2), ("provider", 3), ("group", 4)])
def test_each_has_what_its_requests_used(subject, subject_id):
    for minutes in (0, 10):
        entry(minutes)
    entry(20 * 24 * 60)
    assert asked(subject, subject_id) == Used(2, 70, Decimal("0.000000000246"))
    assert asked(subject, 5) == Used(0, 0, Decimal(0))


def test_stored_answers_and_failures_are_requests_and_refusals_are_not():
    entry(attempts=0, entry_source="Cache", cost=0)
    entry(attempts=0, outcome="denied", exception="RuleDenied", input_tokens=None, output_tokens=None, cost=None)
    entry(outcome="aborted", duration_ms=None, input_tokens=None, cache_read_tokens=None, output_tokens=None, cost=None)
    for exception in ("RateLimited", "QuotaExceeded", "ActiveUseLimitReached"):
        entry(attempts=0, exception=exception, input_tokens=None, output_tokens=None, cost=None)
    entry(entry_type="Message")
    assert asked("key", 2) == Used(3, 0, Decimal(0))
    assert asked("provider", 3) == Used(1, 0, Decimal(0))


def test_what_had_not_ended_by_then_is_not_told():
    entry(duration_ms=30_000.0)
    entry(duration_ms=90_000.0)
    assert asked("user", 1, NOON + timedelta(seconds=60)).requests == 1
    assert asked("user", 1, NOON + timedelta(seconds=91)).requests == 2
    assert asked("user", 1, NOON + timedelta(seconds=29.9)).requests == 0
