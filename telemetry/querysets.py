"""Every question to the database about what happened."""

from datetime import datetime
from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone


class EntryQuerySet(models.QuerySet):
    """What log and cache entries have in common: somebody left them at some moment."""

    moment: ClassVar[str]  # the field that says when

    def newest_first(self) -> Self:
        """The order of every list of entries, as their indexes have it."""
        return self.order_by(f"-{self.moment}", "-id")

    def of_user(self, user_id: int) -> Self:
        """Entries that one user left."""
        return self.filter(user_id=user_id)

    def between(self, start: datetime | None = None, end: datetime | None = None) -> Self:
        """Entries from start on and before end; either may be left open."""
        after = Q(**{f"{self.moment}__gte": start}) if start else Q()
        return self.filter(after & (Q(**{f"{self.moment}__lt": end}) if end else Q()))

    def slice(self, first: int, end: int) -> list:
        """These rows of the list; what comes before them is passed over in the index, and never read."""
        ids = list(self.values_list("pk", flat=True)[first:end])
        found = self.model._default_manager.in_bulk(ids)
        return [found[row_id] for row_id in ids if row_id in found]


class LogEntryQuerySet(EntryQuerySet):
    moment = "timestamp"

    def telling(self, text: str) -> Self:
        """Entries with this text in the model, the correlation id or the payload."""
        return self.filter(Q(model__icontains=text) | Q(correlation_id__icontains=text) | Q(payload__icontains=text))


class CacheEntryQuerySet(EntryQuerySet):
    moment = "created_at"

    def fresh(self, at: datetime | None = None) -> Self:
        """Entries that may still be served at the given moment (now, unless told)."""
        return self.filter(expires_at__gt=at or timezone.now())

    def telling(self, text: str) -> Self:
        """Entries with this text in the model or the response."""
        return self.filter(Q(model__icontains=text) | Q(response__icontains=text))
