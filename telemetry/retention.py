"""What is old enough goes: payloads first, then entries, and records of answers that are stored no more.

A chore does a piece of its work, in the caller's transaction and of bounded size, and says whether there may be more.
Usage stays, and is merged.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection

from telemetry import partitions, rollups
from telemetry.models import CacheEntry, LogEntry, Usage, UsageDay, UsageHour

BATCH = 1000
# Entries whose payload is gone are passed over, so many in one piece of work.
LOOKED_AT = 10 * BATCH
# Rows of usage that wait to be merged, and that everybody who asks for usage reads.
MOST_PARTS = 5000
LOG = LogEntry._meta.db_table
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

    It goes on from where it was, and looks at LOOKED_AT entries at most. Once a day it begins anew, for entries that
    came late.
    """

    def __init__(self) -> None:
        self._begun = self._done = BEGINNING

    def __call__(self, now: datetime) -> bool:
        if not settings.GATEWAY_PAYLOAD_DAYS:
            return False
        if now - self._begun > timedelta(days=1):
            self._begun, self._done = now, BEGINNING
        limit = now - timedelta(days=settings.GATEWAY_PAYLOAD_DAYS)
        end = self._end_of_piece(limit)
        full = LogEntry.objects.between(self._done, end).exclude(payload="").order_by("timestamp")
        batch = list(full.values_list("id", "timestamp")[:BATCH])
        if batch:
            first, last = batch[0][1], batch[-1][1]  # partitions are found by them
            LogEntry.objects.filter(timestamp__range=(first, last), pk__in=[row[0] for row in batch]).update(payload="")
        self._done = batch[-1][1] if len(batch) == BATCH else end
        return self._done < limit

    def _end_of_piece(self, limit: datetime) -> datetime:
        """The moment of the entry before which there are LOOKED_AT others, or a little later; at most the limit."""
        times = LogEntry.objects.between(self._done, limit).order_by("timestamp").values_list("timestamp", flat=True)
        later = times[LOOKED_AT:].first()
        return limit if later is None else max(later, self._done + timedelta(microseconds=1))


def delete_cache_records(now: datetime) -> bool:
    """Records of stored answers go GATEWAY_CACHE_RECORD_DAYS after the answers themselves."""
    if not settings.GATEWAY_CACHE_RECORD_DAYS:
        return False
    limit = now - timedelta(days=settings.GATEWAY_CACHE_RECORD_DAYS)
    over = CacheEntry.objects.filter(expires_at__lt=limit).order_by("expires_at").values_list("pk", flat=True)[:BATCH]
    return CacheEntry.objects.filter(pk__in=list(over)).delete()[0] == BATCH


def merge_hours(now: datetime) -> bool:
    """Entries of long streams, and those of the last batches, come after their hour."""
    return _merge(UsageHour, rollups.tidy, now - timedelta(minutes=75))


def merge_days(now: datetime) -> bool:
    """What is merged late of the hours of a day comes after it."""
    return _merge(UsageDay, rollups.tidy_day, now - timedelta(hours=26))


def _merge(kind: type[Usage], tidy: Callable[[datetime], None], over: datetime) -> bool:
    """Usage of a time that is over becomes a row for each set of dimensions; that of the present does as it grows."""
    parts = kind.objects.filter(merged=False).order_by("hour").values_list("hour", flat=True)
    begin = parts.filter(hour__lt=over).first() or parts[MOST_PARTS:].first()
    if begin is None:
        return False
    tidy(begin)
    return True
