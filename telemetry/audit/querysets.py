"""Every question to the database about the audit."""

from typing import Any, Self

from django.db.models import Q

from telemetry.querysets import EntryQuerySet, in_json


class AuditQuerySet(EntryQuerySet[Any]):
    time_field = "timestamp"

    def in_chain_order(self) -> Self:
        """Oldest first, as each row's hash covers the one before it."""
        return self.order_by("id")

    def containing(self, text: str) -> Self:
        """Entries with this text in their message, actor, address or values; ids of requests match whole."""
        matches = Q(request_id=text) | in_json("before", text) | in_json("after", text)
        for part in ("message", "actor", "address"):
            matches |= Q(**{f"{part}__icontains": text})
        return self.filter(matches)
