"""Every question to the database about the audit."""

from datetime import datetime
from typing import Any, Self

from django.db.models import Q

from telemetry.querysets import EntryQuerySet


class AuditQuerySet(EntryQuerySet[Any]):
    time_field = "timestamp"

    def in_chain_order(self) -> Self:
        """Oldest first, as each row's hash covers the one before it."""
        return self.order_by("id")

    def before_id_of(self, moment: datetime) -> Self:
        """The rows of the chain before the first one that was not written before this moment.

        A clock that was set back for a while makes old rows between young ones: those stay until the young ones go.
        """
        first = self.filter(timestamp__gte=moment).order_by("id").values_list("id", flat=True).first()
        return self.filter(id__lt=first) if first is not None else self.all()

    def containing(self, text: str) -> Self:
        """Entries with this text in their message, actor, address or values; ids of requests match whole."""
        parts = ("message", "actor", "address", "before", "after")
        matches = Q(request_id=text)
        for part in parts:
            matches |= Q(**{f"{part}__icontains": text})
        return self.filter(matches)
