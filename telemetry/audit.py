"""Administrative changes in the log: who changed what, from where, and how it was before and after."""

import orjson

from gateway_project.api.audit import Change
from telemetry.models import EntryType, LogEntry

VERBS = {
    "create": "created",
    "update": "changed",
    "destroy": "deleted",
    "rotate": "rotated",
    "test": "tested",
    "sign out": "signed out",
}


def record(change: Change) -> None:
    """Store the Message entry of one change; it and the change are one transaction."""
    caller = change.caller
    LogEntry.objects.create(
        entry_type=EntryType.MESSAGE,
        correlation_id=change.correlation_id,
        message=change.message or _sentence(change),
        severity=change.severity,
        payload=_payload(change),
        user_id=caller.user.pk if caller else None,
        username=caller.user.username if caller else "",
        key_id=caller.key_id if caller else None,
        key_name=caller.key_name if caller else "",
        address=change.address,
    )


def _sentence(change: Change) -> str:
    who = change.caller.user.username if change.caller else change.operator or "Nobody"
    what = change.resource if change.id is None else f"{change.resource} {change.id}"
    named = f": {', '.join(change.attributes)}" if change.attributes else ""
    how = ", by manage.py" if change.operator else ""
    return f"{who} {VERBS.get(change.operation, change.operation)} {what}{named}{how}."


def _payload(change: Change) -> str:
    payload = {
        "resource": change.resource,
        "id": change.id,
        "operation": change.operation,
        "attributes": change.attributes,
        "before": change.before,
        "after": change.after,
    }
    return orjson.dumps(payload, default=str).decode()
