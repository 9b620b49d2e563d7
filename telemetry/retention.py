"""What is old enough goes: payloads first, then entries, and records of answers that are stored no more.

A chore does a piece of its work, in the caller's transaction and of bounded size, and says whether there may be more.
Usage by the hour stays, and is merged.
"""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection

from telemetry import partitions, rollups
from telemetry.models import CacheEntry, LogEntry, UsageHour

BATCH = 1000
LOG = LogEntry._meta.db_table
# Entries of long streams, and those of the last batches, come after their hour.
HOUR_IS_OVER = timedelta(minutes=75)
MERGE_ALL_EVERY = timedelta(minutes=10)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def kept_since(now: datetime) -> datetime | None:
    """From when on the log has every entry; None where none are removed."""
    return now - timedelta(days=settings.GATEWAY_LOG_DAYS) if settings.GATEWAY_LOG_DAYS else None


def make_partitions(now: datetime) -> bool:
    """Entries find the partition of their time there before it begins."""
    partitions.make_ahead(now)
    return False


def delete_entries(now: datetime) -> bool:
    """Entries beyond GATEWAY_LOG_DAYS go: a partition at a time on PostgreSQL, else a batch."""
    limit = kept_since(now)
    if limit is None:
        return False
    if partitions.drop_before(limit):
        return True
    table = partitions.DEFAULT if connection.vendor == "postgresql" else LOG
    oldest = f'SELECT id FROM "{table}" WHERE "timestamp" < %s ORDER BY "timestamp" LIMIT {BATCH}'
    with connection.cursor() as cursor:
        cursor.execute(f'DELETE FROM "{table}" WHERE id IN ({oldest})', [rollups.moment(limit)])
        return cursor.rowcount == BATCH


class EmptyPayloads:
    """Payloads beyond GATEWAY_PAYLOAD_DAYS go, and their entries stay.

    It goes on from where it was. Once a day it begins anew, for entries that came late.
    """

    def __init__(self) -> None:
        self._begun = self._done = BEGINNING

    def __call__(self, now: datetime) -> bool:
        if not settings.GATEWAY_PAYLOAD_DAYS:
            return False
        if now - self._begun > timedelta(days=1):
            self._begun, self._done = now, BEGINNING
        limit = now - timedelta(days=settings.GATEWAY_PAYLOAD_DAYS)
        full = LogEntry.objects.between(self._done, limit).exclude(payload="").order_by("timestamp")
        batch = list(full.values_list("id", "timestamp")[:BATCH])
        if batch:
            first, last = batch[0][1], batch[-1][1]  # partitions are found by them
            LogEntry.objects.filter(timestamp__range=(first, last), pk__in=[row[0] for row in batch]).update(payload="")
        more = len(batch) == BATCH
        self._done = batch[-1][1] if more else limit
        return more


def delete_cache_records(now: datetime) -> bool:
    """Records of stored answers go GATEWAY_CACHE_RECORD_DAYS after the answers themselves."""
    if not settings.GATEWAY_CACHE_RECORD_DAYS:
        return False
    limit = now - timedelta(days=settings.GATEWAY_CACHE_RECORD_DAYS)
    over = CacheEntry.objects.filter(expires_at__lt=limit).order_by("expires_at").values_list("pk", flat=True)[:BATCH]
    return CacheEntry.objects.filter(pk__in=list(over)).delete()[0] == BATCH


class MergeHours:
    """Hours that are over become a row for each set of dimensions; the present one does now and then."""

    def __init__(self) -> None:
        self._merged_all = BEGINNING

    def __call__(self, now: datetime) -> bool:
        everything = now - self._merged_all > MERGE_ALL_EVERY
        hours = UsageHour.objects.filter(merged=False, hour__lt=now - (timedelta(0) if everything else HOUR_IS_OVER))
        hour = hours.order_by("hour").values_list("hour", flat=True).first()
        if hour is not None:
            rollups.tidy(hour)
        elif everything:
            self._merged_all = now
        return hour is not None
