"""The requests before and after one, in the list that it was opened from."""

from contextlib import suppress

from django.db.models import Q

from gateway_project.json_types import JsonObject
from telemetry.models import EntryType, LogEntry
from telemetry.paging import QueryTimeout, statement_timeout
from telemetry.querysets import LogEntryQuerySet, newest_of

# For the first or last entry of a list, PostgreSQL may look through the whole log.
NEIGHBOURS_MS = 2_000


def ids_of_neighbours(entry: LogEntry, listed: LogEntryQuerySet | None = None) -> JsonObject:
    """The ids of the requests before and after it, None at the ends; among all if the list takes too long."""
    if listed is not None:
        with suppress(QueryTimeout), statement_timeout(NEIGHBOURS_MS):
            return _ids_beside(entry, listed)
    return _ids_beside(entry, LogEntry.objects.filter(entry_type=EntryType.WORK_REQUEST))


def _ids_beside(entry: LogEntry, entries: LogEntryQuerySet) -> JsonObject:
    earlier = Q(timestamp__lt=entry.timestamp) | Q(timestamp=entry.timestamp, pk__lt=entry.pk)
    later = Q(timestamp__gt=entry.timestamp) | Q(timestamp=entry.timestamp, pk__gt=entry.pk)
    before = entries.filter(earlier, timestamp__lte=entry.timestamp).newest_first().values_list("pk", flat=True)
    after = entries.filter(later, timestamp__gte=entry.timestamp)
    return {
        "previous_entry": next(iter(newest_of(before, 0, 1, until=entry.timestamp)), None),
        "next_entry": after.oldest_id(since=entry.timestamp),
    }
