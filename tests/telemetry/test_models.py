"""The log's tables take rows that name only some columns."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from telemetry.models import CacheEntry, JournalPosition, LogEntry


@pytest.mark.parametrize(
    ("model", "column"),
    [(LogEntry, "message"), (CacheEntry, "request_hash"), (JournalPosition, "journal")],
)
def test_a_row_written_by_plain_sql_gets_the_defaults_of_the_model(db, model, column):
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {model._meta.db_table} ({column}) VALUES ('x')")
    by_database, by_model = model.objects.get(), model(**{column: "x"})
    for field in model._meta.concrete_fields:
        stored = getattr(by_database, field.attname)
        if field.get_internal_type() == "DateTimeField" and stored:
            assert abs(stored - timezone.now()) < timedelta(minutes=1)
        elif not field.primary_key:
            assert stored == getattr(by_model, field.attname), field.attname


def test_entries_are_found_by_user_time_and_text(db):
    now = timezone.now()
    LogEntry.objects.create(model="fast", user_id=1, timestamp=now)
    newest = LogEntry.objects.create(payload="What is Lisbon?", user_id=2, timestamp=now)
    assert LogEntry.objects.newest_first().first() == newest
    assert LogEntry.objects.of_user(1).telling("FAST").count() == 1
    assert list(LogEntry.objects.telling("lisbon")) == [newest]
    assert LogEntry.objects.between(now, now + timedelta(seconds=1)).count() == 2
    assert not LogEntry.objects.between(end=now).exists()
    assert LogEntry.objects.between().count() == 2


def test_stored_responses_are_found_by_user_time_and_text_while_fresh(db):
    now = timezone.now()
    entry = CacheEntry.objects.create(
        request_hash="h", response="Lisbon", user_id=1, created_at=now, expires_at=now + timedelta(hours=1)
    )
    assert list(CacheEntry.objects.fresh().of_user(1).telling("lisbon").newest_first()) == [entry]
    assert not CacheEntry.objects.fresh(entry.expires_at).exists()
    assert not CacheEntry.objects.between(end=now).exists()
    assert CacheEntry.objects.between(start=now).exists()
