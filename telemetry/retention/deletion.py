"""Retention: deletes old payloads, then old entries, and the records of cached answers that have expired.

Each task does one batch of bounded size in the caller's transaction and returns whether there may be more.
Usage is kept, and merged.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection

from telemetry.models import CacheEntry, LogEntry, Usage, UsageDay, UsageHour
from telemetry.retention import partitions
from telemetry.usage import rollups

BATCH = 1000
# Entries looked at in one batch, those included whose payload is empty already.
MAX_SCANNED = 10 * BATCH
# Unmerged usage rows, which every query reads: with more of them even present hours are merged.
MAX_UNMERGED = 5000
LOG = LogEntry._meta.db_table
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def kept_since(now: datetime) -> datetime | None:
    """The moment since which the log has every entry; None where entries are never removed."""
    return now - timedelta(days=settings.GATEWAY_LOG_DAYS) if settings.GATEWAY_LOG_DAYS else None


def make_partitions(now: datetime) -> bool:
    """Create partitions before their time begins."""
    partitions.create_ahead(now)
    return False


def delete_entries(now: datetime) -> bool:
    """Delete entries older than GATEWAY_LOG_DAYS: a whole partition on PostgreSQL where there is one, else a batch."""
    limit = kept_since(now)
    if limit is None:
        return False
    if partitions.drop_before(limit):
        return True
    table = partitions.DEFAULT if connection.vendor == "postgresql" else LOG
    oldest = f'SELECT id FROM "{table}" WHERE "timestamp" < %s ORDER BY "timestamp" LIMIT {BATCH}'
    with connection.cursor() as cursor:
        cursor.execute(f'DELETE FROM "{table}" WHERE id IN ({oldest})', [rollups.sql_timestamp(limit)])
        return cursor.rowcount == BATCH


class PayloadEraser:
    """Empties payloads older than GATEWAY_PAYLOAD_DAYS; their entries stay.

    Each batch continues from the last and looks at MAX_SCANNED entries at most. Once a day it starts over, for entries
    that came late.
    """

    def __init__(self) -> None:
        self._begun = self._done = EPOCH

    def __call__(self, now: datetime) -> bool:
        if not settings.GATEWAY_PAYLOAD_DAYS:
            return False
        if now - self._begun > timedelta(days=1):
            self._begun, self._done = now, EPOCH
        limit = now - timedelta(days=settings.GATEWAY_PAYLOAD_DAYS)
        end = self._batch_end(limit)
        full = LogEntry.objects.between(self._done, end).exclude(payload="").order_by("timestamp")
        batch = list(full.values_list("id", "timestamp")[:BATCH])
        if batch:
            first, last = batch[0][1], batch[-1][1]  # so that PostgreSQL reads only their partitions
            LogEntry.objects.filter(timestamp__range=(first, last), pk__in=[row[0] for row in batch]).update(payload="")
        self._done = batch[-1][1] if len(batch) == BATCH else end
        return self._done < limit

    def _batch_end(self, limit: datetime) -> datetime:
        """The moment of the entry after the next MAX_SCANNED ones, at least a microsecond on; at most the limit."""
        times = LogEntry.objects.between(self._done, limit).order_by("timestamp").values_list("timestamp", flat=True)
        later = times[MAX_SCANNED:].first()
        return limit if later is None else max(later, self._done + timedelta(microseconds=1))


def delete_cache_records(now: datetime) -> bool:
    """Delete the records of cached answers GATEWAY_CACHE_RECORD_DAYS after the answers expired."""
    if not settings.GATEWAY_CACHE_RECORD_DAYS:
        return False
    limit = now - timedelta(days=settings.GATEWAY_CACHE_RECORD_DAYS)
    over = CacheEntry.objects.filter(expires_at__lt=limit).order_by("expires_at").values_list("pk", flat=True)[:BATCH]
    return CacheEntry.objects.filter(pk__in=list(over)).delete()[0] == BATCH


def merge_hours(now: datetime) -> bool:
    """Merge hours that are over; with a delay, as entries of long streams and last batches come after their hour."""
    return _merge(UsageHour, rollups.merge_hour, now - timedelta(minutes=75))


def merge_days(now: datetime) -> bool:
    """Merge days that are over; with a delay, as hours may be merged after their day."""
    return _merge(UsageDay, rollups.merge_day, now - timedelta(hours=26))


def _merge(kind: type[Usage], merge: Callable[[datetime], None], over: datetime) -> bool:
    """Merge the oldest unmerged time that is over, or a present one while more than MAX_UNMERGED rows are unmerged."""
    parts = kind._default_manager.filter(merged=False).order_by("hour").values_list("hour", flat=True)
    begin = parts.filter(hour__lt=over).first() or parts[MAX_UNMERGED:].first()
    if begin is None:
        return False
    merge(begin)
    return True
