"""The time, the maintenance and what it leaves."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from telemetry.models import LogEntry
from telemetry.retention import partitions
from tests.support.usage_entries import done

NOW = timezone.now()
DAY = timedelta(days=1)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has partitions")


@pytest.fixture(autouse=True)
def as_migrated(settings):
    """Partitions as a migrate makes them, whatever a test before has dropped or made."""
    yield
    settings.GATEWAY_LOG_DAYS = 0
    if connection.vendor == "postgresql":
        LogEntry.objects.all().delete()
        for partition in partitions.partitions():
            with connection.cursor() as cursor:
                cursor.execute(f'DROP TABLE "{partition.name}"')
        partitions.create_ahead(timezone.now())


def stored_ids():
    return sorted(LogEntry.objects.values_list("correlation_id", flat=True))


def house():
    call_command("housekeep", verbosity=0)


def aged(days, request_id=None, **fields):
    return done(request_id or f"{days}", NOW - timedelta(days=days), **fields)
