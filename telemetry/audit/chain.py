"""The chain of audit rows: each row's hash covers the row and the hash of the row before it. Pure.

Whoever changes, removes or inserts a row has to write all later hashes anew, and the last of them then differs from the
head that the log file and the metrics have.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import orjson

BEGINNING = "0" * 64  # the hash before the first row


class AuditRecord(NamedTuple):
    """The columns of a row that its hash covers, in their order in the hashed text."""

    timestamp: datetime
    actor: str
    user_id: int | None
    key_id: int | None
    action: str
    resource: str
    resource_id: int | None
    message: str
    before: str  # JSON
    after: str  # JSON
    address: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Link:
    """A stored row: its record and its two hashes."""

    id: int
    record: AuditRecord
    previous_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class Break:
    """The first row at which the chain does not hold, and why, as a sentence."""

    row_id: int
    problem: str


def hash_record(record: AuditRecord, previous_hash: str) -> str:
    """SHA-256, in hexadecimal, of the hash before the record and the record as a JSON array."""
    time = record.timestamp.astimezone(UTC).isoformat(timespec="microseconds")
    text = orjson.dumps([previous_hash, time, *record[1:]])
    return hashlib.sha256(text).hexdigest()


def first_break(links: Iterable[Link], previous_hash: str) -> Break | None:
    """The first row that was changed, or that does not follow on the row before it; None if the chain holds."""
    for link in links:
        if link.previous_hash != previous_hash:
            return Break(
                link.id, "The row does not continue the row before it: a row was changed, removed or inserted."
            )
        if link.hash != hash_record(link.record, previous_hash):
            return Break(link.id, "The row was changed after it was written.")
        previous_hash = link.hash
    return None
