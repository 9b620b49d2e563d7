"""Removes whole closed months of the audit, and leaves their hashes."""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction

from telemetry.audit.attestation import attestation
from telemetry.audit.head import read_head
from telemetry.audit.models import AuditEntry, AuditSegment
from telemetry.audit.recording import append, lock_chain


def look_at_head(now: datetime) -> bool:
    """Let this process know the end of the chain."""
    read_head()
    return False


@transaction.atomic
def delete_segment(now: datetime) -> bool:
    """Remove the oldest month that is older than GATEWAY_AUDIT_DAYS as a whole; returns whether there was one."""
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
    rows = AuditEntry.objects.before_id_of(end)
    last = rows.order_by("-id")[0]
    AuditSegment.objects.create(
        first_id=oldest.pk,
        last_id=last.pk,
        rows=rows.count(),
        begins=oldest.timestamp,
        ends=last.timestamp,
        previous_hash=oldest.previous_hash,
        hash=last.hash,
    )
    append(attestation(list(AuditSegment.objects.order_by("last_id")), now))
    rows.filter(id__lte=last.pk).delete()
