"""Removes closed months of the audit, and leaves their hashes."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile

from django.conf import settings
from django.db import transaction

from telemetry.audit.attestation import attestation
from telemetry.audit.head import read_head
from telemetry.audit.models import AuditEntry, AuditSegment
from telemetry.audit.recording import append_record, lock_chain

# The rows of a segment at most: while they are deleted, no other change can be recorded.
SEGMENT_ROWS = 5000


def look_at_head(now: datetime) -> bool:
    """Let this process know the end of the chain."""
    read_head()
    return False


@transaction.atomic
def delete_segment(now: datetime) -> bool:
    """Remove the oldest rows of the oldest month, if it is older than GATEWAY_AUDIT_DAYS as a whole.

    Returns whether there were any.
    """
    if not settings.GATEWAY_AUDIT_DAYS:
        return False
    lock_chain()
    oldest = AuditEntry.objects.in_chain_order().first()
    if oldest is None:
        return False
    end = next_month(oldest.timestamp)
    if end > now - timedelta(days=settings.GATEWAY_AUDIT_DAYS):
        return False
    _remove(oldest, end, now)
    return True


def next_month(moment: datetime) -> datetime:
    """The first moment of the month after this one's, in UTC."""
    first = moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)


def _remove(oldest: AuditEntry, end: datetime, now: datetime) -> None:
    rows = _oldest_rows(end)
    last_id, last_time, last_hash = rows[-1]
    AuditSegment.objects.create(
        first_id=oldest.pk,
        last_id=last_id,
        rows=len(rows),
        begins=oldest.timestamp,
        ends=last_time,
        previous_hash=oldest.previous_hash,
        hash=last_hash,
    )
    append_record(attestation(list(AuditSegment.objects.order_by("last_id")), now))
    AuditEntry.objects.filter(id__lte=last_id).delete()


def _oldest_rows(end: datetime) -> list[tuple[int, datetime, str]]:
    """Id, time and hash of the oldest rows, up to the first one that was not written before this moment.

    A clock that was set back for a while makes old rows between young ones: those stay until the young ones go.
    """
    rows = AuditEntry.objects.in_chain_order().values_list("id", "timestamp", "hash")[:SEGMENT_ROWS]
    return list(takewhile(lambda row: row[1] < end, rows))
