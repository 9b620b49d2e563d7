"""Retention: deletes old payloads, then old entries, and the records of cached answers that have expired.

Each task does one batch of bounded size in the caller's transaction and returns whether there may be more.
Usage is kept, and merged.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Case, Q, Value, When

from gateway_project.errors import AuthenticationFailed, ServiceUnavailable
from telemetry.guardrails import rollup as guardrail_rollup
from telemetry.models import (
    CacheEntry,
    EntryType,
    GuardrailHour,
    GuardrailSample,
    KeptState,
    LogEntry,
    UsageDay,
    UsageHour,
)
from telemetry.querysets import AUDIT_PAYLOAD, ERASED_AUDIT_PAYLOAD, LogEntryQuerySet
from telemetry.retention import partitions
from telemetry.usage import rollups
from telemetry.usage.models import Usage

BATCH = 1000
# Entries looked at in one batch, those included whose payload is empty already.
MAX_SCANNED = 10 * BATCH
# Unmerged usage rows, which every query reads: with more of them even present hours are merged.
MAX_UNMERGED = 5000
LOG = LogEntry._meta.db_table
CHECKED_DAYS = timedelta(days=40)  # how far back RollupCheck looks
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def retention_start(now: datetime) -> datetime | None:
    """The moment since which the log has every entry; None where entries are never removed."""
    periods = [days for days in (settings.GATEWAY_LOG_DAYS, settings.GATEWAY_REFUSAL_DAYS) if days]
    return now - timedelta(days=min(periods)) if periods else None


def make_partitions(now: datetime) -> bool:
    """Create partitions before their time begins."""
    partitions.create_ahead(now)
    return False


def delete_entries(now: datetime) -> bool:
    """Delete entries older than GATEWAY_LOG_DAYS: a whole partition on PostgreSQL where there is one, else a batch."""
    if not settings.GATEWAY_LOG_DAYS:
        return False
    limit = now - timedelta(days=settings.GATEWAY_LOG_DAYS)
    if partitions.drop_before(limit):
        return True
    table = partitions.DEFAULT if connection.vendor == "postgresql" else LOG
    oldest = f'SELECT id FROM "{table}" WHERE "timestamp" < %s ORDER BY "timestamp" LIMIT {BATCH}'
    with connection.cursor() as cursor:
        delete = f'DELETE FROM "{table}" WHERE id IN ({oldest})'
        cursor.execute(delete, [rollups.sql_timestamp(limit)])
        return cursor.rowcount == BATCH


class OldEntries(ABC):
    """A task on old entries of one kind.

    Each batch continues from the last and looks at MAX_SCANNED entries at most. Once a day it starts over, for entries
    that came late.
    """

    def __init__(self) -> None:
        self._begun = self._done = EPOCH

    @property
    @abstractmethod
    def days(self) -> int:
        """After how many days an entry is old; 0: never."""

    @abstractmethod
    def entries_to_treat(self, entries: LogEntryQuerySet) -> LogEntryQuerySet:
        """Those of these entries that still need the task."""

    @abstractmethod
    def act(self, entries: LogEntryQuerySet) -> None:
        """Do it, in one statement."""

    def __call__(self, now: datetime) -> bool:
        if not self.days:
            return False
        if now - self._begun > timedelta(days=1):
            self._begun, self._done = now, EPOCH
        limit = now - timedelta(days=self.days)
        end = self._batch_end(limit)
        entries = self.entries_to_treat(LogEntry.objects.between(self._done, end)).order_by("timestamp")
        batch = list(entries.values_list("id", "timestamp")[:BATCH])
        if batch:
            first, last = batch[0][1], batch[-1][1]  # so that PostgreSQL reads only their partitions
            self.act(LogEntry.objects.filter(timestamp__range=(first, last), pk__in=[row[0] for row in batch]))
        self._done = batch[-1][1] if len(batch) == BATCH else end
        return self._done < limit

    def _batch_end(self, limit: datetime) -> datetime:
        """The moment of the entry after the next MAX_SCANNED ones, at least a microsecond on; at most the limit."""
        times = LogEntry.objects.between(self._done, limit).order_by("timestamp").values_list("timestamp", flat=True)
        later = times[MAX_SCANNED:].first()
        return limit if later is None else max(later, self._done + timedelta(microseconds=1))


class PayloadEraser(OldEntries):
    """Empties payloads older than GATEWAY_PAYLOAD_DAYS; their entries stay, and the audit's are still known as such."""

    @property
    def days(self) -> int:
        return settings.GATEWAY_PAYLOAD_DAYS

    def entries_to_treat(self, entries: LogEntryQuerySet) -> LogEntryQuerySet:
        return entries.exclude(payload__in=("", ERASED_AUDIT_PAYLOAD))

    def act(self, entries: LogEntryQuerySet) -> None:
        of_audit = When(payload__startswith=AUDIT_PAYLOAD, then=Value(ERASED_AUDIT_PAYLOAD))
        entries.update(payload=Case(of_audit, default=Value("")))


# Refused before it was known whose the request is, by a gateway that is full or without its database. Errors of known
# callers whose entry belongs to nobody name the user, or the key.
FAILED_UNKNOWN = Q(status=ServiceUnavailable.code, exception=ServiceUnavailable.__name__, username="", key_id=None)
UNKNOWN_CREDENTIAL = Q(status=AuthenticationFailed.code, exception=AuthenticationFailed.__name__)


class RefusalEraser(OldEntries):
    """Deletes what anybody can cause: entries of unknown callers, and of refused logins, after GATEWAY_REFUSAL_DAYS."""

    @property
    def days(self) -> int:
        return settings.GATEWAY_REFUSAL_DAYS

    def entries_to_treat(self, entries: LogEntryQuerySet) -> LogEntryQuerySet:
        of_nobody = Q(UNKNOWN_CREDENTIAL | FAILED_UNKNOWN, user_id=None)
        return entries.filter(of_nobody | Q(UNKNOWN_CREDENTIAL, entry_type=EntryType.MESSAGE))

    def act(self, entries: LogEntryQuerySet) -> None:
        entries.delete()


def delete_cache_records(now: datetime) -> bool:
    """Delete the records of cached answers GATEWAY_CACHE_RECORD_DAYS after the answers expired."""
    if not settings.GATEWAY_CACHE_RECORD_DAYS:
        return False
    limit = now - timedelta(days=settings.GATEWAY_CACHE_RECORD_DAYS)
    over = CacheEntry.objects.filter(expires_at__lt=limit).order_by("expires_at").values_list("pk", flat=True)[:BATCH]
    return CacheEntry.objects.filter(pk__in=list(over)).delete()[0] == BATCH


def delete_owners(now: datetime) -> bool:
    """Delete the owners of stored responses after GATEWAY_STORED_RESPONSE_DAYS: the provider has deleted these, too."""
    if not settings.GATEWAY_STORED_RESPONSE_DAYS:
        return False
    limit = now - timedelta(days=settings.GATEWAY_STORED_RESPONSE_DAYS)
    old = KeptState.objects.filter(is_lasting=False, created_at__lt=limit).order_by("created_at")
    batch = list(old.values_list("pk", flat=True)[:BATCH])
    return KeptState.objects.filter(pk__in=batch).delete()[0] == BATCH


def delete_samples(now: datetime) -> bool:
    """Delete what guardrails have matched once the days of each sample are over, or those of payloads or entries."""
    condition = Q(expires_at__lt=now)
    for days in filter(None, (settings.GATEWAY_PAYLOAD_DAYS, settings.GATEWAY_LOG_DAYS)):
        condition |= Q(timestamp__lt=now - timedelta(days=days))
    old = GuardrailSample.objects.filter(condition).order_by("expires_at")
    batch = list(old.values_list("pk", flat=True)[:BATCH])
    return GuardrailSample.objects.filter(pk__in=batch).delete()[0] == BATCH


def merge_hours(now: datetime) -> bool:
    """Merge hours that are over; with a delay, as entries of long streams and last batches come after their hour."""
    return _merge(UsageHour, rollups.merge_hour, now - timedelta(minutes=75))


def merge_guardrail_hours(now: datetime) -> bool:
    """Merge the counts of guardrails of hours that are over."""
    return _merge(GuardrailHour, guardrail_rollup.merge_hour, now - timedelta(minutes=75))


def merge_days(now: datetime) -> bool:
    """Merge days that are over, also those of models; with a delay, as hours may be merged after their day."""
    return _merge(UsageDay, rollups.merge_day, now - timedelta(hours=26))


class RollupCheck:
    """Compares, once an hour, the days of models with the days of all usage, and rebuilds a day that differs.

    An earlier version that still runs, or runs again, merges hours without adding them to the tables of models.
    """

    def __init__(self) -> None:
        self._next = datetime.min.replace(tzinfo=UTC)

    def __call__(self, now: datetime) -> bool:
        if now < self._next:
            return False
        if (day := rollups.differing_day(rollups.floor_day(now) - CHECKED_DAYS)) is not None:
            rollups.rebuild_day(day)
            return True
        self._next = now + timedelta(hours=1)
        return False


def _merge(kind: type[Usage | GuardrailHour], merge: Callable[[datetime], None], over: datetime) -> bool:
    """Merge the oldest unmerged time that is over, or a present one while more than MAX_UNMERGED rows are unmerged."""
    parts = kind._default_manager.filter(merged=False).order_by("hour").values_list("hour", flat=True)
    begin = parts.filter(hour__lt=over).first() or parts[MAX_UNMERGED:].first()
    if begin is None:
        return False
    merge(begin)
    return True
