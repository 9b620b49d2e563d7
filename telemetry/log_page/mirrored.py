"""A request and the mirror that got it too, side by side on the pages of both entries."""

from typing import NamedTuple

from telemetry.models import EntryType, LogEntry

MAX_PAIRED = 5  # a client may send the same request id again
KINDS = {EntryType.WORK_REQUEST: EntryType.MIRROR, EntryType.MIRROR: EntryType.WORK_REQUEST}


class Side(NamedTuple):
    """One of the entries, with what they are compared by as the page shows it."""

    id: int
    title: str
    target: str
    outcome: str
    took: str
    tokens: str
    cost: str
    price_page: str  # where a price is missing
    answer: str
    is_this: bool


def mirrored_pair(entry: LogEntry) -> list[LogEntry]:
    """The entry and those of its mirrors, the original first; empty if nobody mirrored it."""
    if not entry.alias or not entry.correlation_id or entry.entry_type not in KINDS:
        return []
    same = {"correlation_id": entry.correlation_id, "user_id": entry.user_id, "alias": entry.alias}
    others = LogEntry.objects.filter(entry_type=KINDS[EntryType(entry.entry_type)], **same).newest_first()[:MAX_PAIRED]
    entries = [entry, *others]
    return sorted(entries, key=lambda one: one.entry_type == EntryType.MIRROR) if len(entries) > 1 else []
