"""Every question to the database about trusted issuers."""

from datetime import datetime, timedelta
from typing import Self, TypeVar

from django.db import models
from django.db.models import Q

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class TrustedIssuerQuerySet(models.QuerySet[Row]):
    def enabled(self) -> Self:
        """Issuers whose tokens are accepted."""
        return self.filter(enabled=True)

    def not_fetched_since(self, at: datetime, seconds: float) -> Self:
        """Issuers whose keys nobody has begun to fetch in so many seconds before a moment."""
        is_due = Q(fetch_begun_at=None) | Q(fetch_begun_at__lte=at - timedelta(seconds=seconds))
        return self.filter(is_due | Q(fetch_begun_at__gt=at + timedelta(seconds=seconds)))  # the clock was set back

    def with_stale_keys(self, at: datetime, seconds: float) -> Self:
        """Issuers whose keys were fetched, but not within so many seconds before a moment."""
        return self.filter(fetched_jwks__isnull=False, fetched_at__lt=at - timedelta(seconds=seconds))

    def fetched_since(self, at: datetime) -> Self:
        """Issuers whose keys were fetched after a moment."""
        return self.filter(fetched_at__gte=at)
