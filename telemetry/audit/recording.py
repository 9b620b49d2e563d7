"""Writes each administrative change into the audit and the log, in the transaction of the change."""

from functools import partial

import orjson
from django.db import connection, transaction
from django.utils import timezone

from gateway_project.api.audit import Change
from gateway_project.errors import AuthenticationFailed
from gateway_project.json_types import JsonObject
from keys.secrets import without_whole_keys
from telemetry.audit.chain import BEGINNING, AuditRecord, hash_record
from telemetry.audit.head import Head, publish_head
from telemetry.audit.models import AuditEntry, AuditSegment
from telemetry.models import EntryType, LogEntry, Outcome

VERBS = {
    "create": "created",
    "update": "changed",
    "destroy": "deleted",
    "rotate": "rotated",
    "restore": "restored",
    "test": "tested",
    "export": "exported",
    "sign out": "signed out",
}
# RefusalEraser recognises refused logins by these values.
REFUSED: JsonObject = {
    "outcome": Outcome.DENIED,
    "status": AuthenticationFailed.code,
    "exception": AuthenticationFailed.__name__,
}
# References are checked before the lock is taken. At the commit the check could wait for a row whose holder waits for
# the lock.
LOCK = (
    "SET CONSTRAINTS ALL IMMEDIATE; "
    "SELECT pg_advisory_xact_lock(hashtext('gateway audit'), 0); "
    "SET CONSTRAINTS ALL DEFERRED"
)


def record_change(change: Change) -> None:
    """Store the log entry and the audit row of a change, in its transaction."""
    message = change.message or _sentence(change)
    caller = change.caller
    LogEntry.objects.create(
        entry_type=EntryType.MESSAGE,
        correlation_id=change.correlation_id,
        message=message,
        severity=change.severity,
        payload=_payload(change),
        user_id=caller.user.pk if caller else None,
        username=caller.user.username if caller else "",
        key_id=caller.key_id if caller else None,
        key_name=caller.key_name if caller else "",
        address=change.address,
        **(REFUSED if change.is_refusal else {}),
    )
    append_record(_audit_record(change, message))


@transaction.atomic
def append_record(audit_record: AuditRecord) -> AuditEntry:
    """Add a record to the end of the chain; the head goes to the log file once the transaction has ended."""
    lock_chain()
    previous_hash = head_hash()
    digest = hash_record(audit_record, previous_hash)
    entry = AuditEntry.objects.create(**audit_record._asdict(), previous_hash=previous_hash, hash=digest)
    transaction.on_commit(partial(publish_head, Head(entry.pk, digest)))
    return entry


def lock_chain() -> None:
    """Let other transactions wait with their additions to the chain until this one ends."""
    if connection.vendor == "postgresql":  # SQLite: a write transaction locks the whole database
        with connection.cursor() as cursor:
            cursor.execute(LOCK)


def head_hash() -> str:
    """The hash of the last row, or of the last removed segment, or BEGINNING."""
    for rows in (AuditEntry.objects.order_by("-id"), AuditSegment.objects.order_by("-last_id")):
        last = rows.values_list("hash", flat=True).first()
        if last is not None:
            return last
    return BEGINNING


def _audit_record(change: Change, message: str) -> AuditRecord:
    caller = change.caller
    return AuditRecord(
        timestamp=timezone.now(),
        actor=caller.user.username if caller else change.operator,
        user_id=caller.user.pk if caller else None,
        key_id=caller.key_id if caller else None,
        action=change.operation,
        resource=change.resource,
        resource_id=change.id,
        message=message,
        before=_json(change.before),
        after=_json(change.after),
        address=change.address,
        request_id=change.correlation_id,
    )


def _sentence(change: Change) -> str:
    who = change.caller.user.username if change.caller else change.operator or "Nobody"
    resource = change.resource if change.id is None else f"{change.resource} {change.id}"
    attributes = f": {', '.join(change.attributes)}" if change.attributes else ""
    how = ", by manage.py" if change.operator else ""
    return f"{who} {VERBS.get(change.operation, change.operation)} {resource}{attributes}{how}."


def _payload(change: Change) -> str:
    return _json(
        {
            "resource": change.resource,
            "id": change.id,
            "operation": change.operation,
            "attributes": change.attributes,
            "before": change.before,
            "after": change.after,
        }
    )


def _json(value: object) -> str:
    """The value as JSON. Keys are masked: the filters of exports and purges contain what somebody searched for."""
    return without_whole_keys(orjson.dumps(value, default=str).decode())
