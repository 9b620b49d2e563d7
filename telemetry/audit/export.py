"""The audit as a file: one JSON object a line in the order of the chain, so that anyone can verify it."""

from collections.abc import Iterator

import orjson

from telemetry.audit.models import AuditEntry
from telemetry.audit.querysets import AuditQuerySet

BATCH = 1000
COLUMNS = tuple(field.attname for field in AuditEntry._meta.concrete_fields)


def audit_as_json_lines(entries: AuditQuerySet) -> Iterator[bytes]:
    """One line an entry, oldest first; no connection is held while the client reads."""
    last = 0
    rows = entries.in_chain_order().values(*COLUMNS)
    while batch := list(rows.filter(id__gt=last)[:BATCH]):
        yield b"".join(orjson.dumps(row) + b"\n" for row in batch)
        last = batch[-1]["id"]
