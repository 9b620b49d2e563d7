"""What retention writes into the chain about the segments that it has removed, so that nobody can invent one later."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from telemetry.audit.chain import AuditRecord
from telemetry.audit.models import AuditSegment

ACTION, RESOURCE = "destroy", "audit"


def attestation(segments: Sequence[AuditSegment], moment: datetime) -> AuditRecord:
    """The record that the last of all these segments was removed; `segments` begin with the oldest."""
    return AuditRecord(
        timestamp=moment,
        actor="",
        user_id=None,
        key_id=None,
        action=ACTION,
        resource=RESOURCE,
        resource_id=None,
        message=_sentence(segments[-1]),
        before="null",
        after=_facts(segments),
        address="",
        request_id="",
    )


def is_attestation(record: AuditRecord) -> bool:
    """Whether retention has written it: nothing else deletes entries of the audit."""
    return (record.action, record.resource) == (ACTION, RESOURCE)


def attests_segments(record: AuditRecord, segments: Sequence[AuditSegment]) -> bool:
    """Whether the newest attestation of a chain is about exactly these segments.

    Those of early versions have no digest, but their message names rows and hash of the last segment.
    """
    return record.message == _sentence(segments[-1]) and record.after in ("null", _facts(segments))


def _sentence(segment: AuditSegment) -> str:
    rows = f"{segment.rows} audit entries, {segment.first_id} to {segment.last_id}"
    return f"Retention removed {rows}; the last hash is {segment.hash}."


def _facts(segments: Sequence[AuditSegment]) -> str:
    """The last segment, and a digest of all of them, as JSON."""
    last = segments[-1]
    facts = {"firstId": last.first_id, "lastId": last.last_id, "rows": last.rows, "hash": last.hash}
    return orjson.dumps({**facts, "segments": len(segments), "digest": _digest(segments)}).decode()


def _digest(segments: Sequence[AuditSegment]) -> str:
    """SHA-256, in hexadecimal, of all columns of the segments."""
    return hashlib.sha256(orjson.dumps([_columns(segment) for segment in segments])).hexdigest()


def _columns(segment: AuditSegment) -> list[int | str]:
    times = [time.astimezone(UTC).isoformat(timespec="microseconds") for time in (segment.begins, segment.ends)]
    return [segment.first_id, segment.last_id, segment.rows, *times, segment.previous_hash, segment.hash]
