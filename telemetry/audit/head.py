"""The end of the chain, as this process knows it: for the metrics and the log file, which an attacker of the database
cannot change."""

import logging
from typing import NamedTuple

from telemetry.audit.models import AuditEntry

logger = logging.getLogger("gateway.audit")


class Head(NamedTuple):
    """The newest entry's id and hash."""

    id: int
    hash: str


_heads: list[Head] = []  # the newest that this process knows, or none


def latest_head() -> Head | None:
    """The newest entry that this process has written, or that the last maintenance has read."""
    return _heads[-1] if _heads else None


def publish_head(head: Head) -> None:
    """Write the head of an entry that was just stored to the log file."""
    logger.info("Audit entry %s has the hash %s.", head.id, head.hash)
    _heads[:] = [head]


def read_head() -> None:
    """Take over what other processes have added."""
    last = AuditEntry.objects.order_by("-id").values_list("id", "hash").first()
    _heads[:] = [Head(*last)] if last else []
