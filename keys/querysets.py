"""Every question to the database about API keys."""

from datetime import datetime
from typing import TYPE_CHECKING, Self

from django.db import models
from django.utils import timezone

if TYPE_CHECKING:
    from accounts.models import User


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def live(self) -> Self:
        """Keys that are not deleted, whether they can be used or not."""
        return self.filter(is_deleted=False)

    def usable(self, at: datetime | None = None) -> Self:
        """Keys that may send work at the given moment (now, unless told); their owners are usable too."""
        # exclude() keeps rows without an expiry: those keys never lapse.
        return (
            self.live()
            .filter(locked_time=None, owner__is_active=True, owner__is_deleted=False)
            .exclude(expiry__lte=at or timezone.now())
        )

    def expired(self, at: datetime | None = None) -> Self:
        """Keys whose time is over at the given moment (now, unless told)."""
        return self.filter(expiry__lte=at or timezone.now())

    def unexpired(self, at: datetime | None = None) -> Self:
        """Keys whose time is not over at the given moment (now, unless told)."""
        return self.exclude(expiry__lte=at or timezone.now())

    def with_public_id(self, *public_ids: str) -> Self:
        """Keys that have one of these ids, or had it before they were rotated."""
        return self.filter(models.Q(public_id__in=public_ids) | models.Q(former_public_id__in=public_ids))

    def shown(self) -> Self:
        """Keys with the owner, the creator and the provider that lists show, in one query."""
        return self.select_related("owner", "created_by", "provider")

    def with_owner(self) -> Self:
        """Keys with their owner and the owner's roles, in two queries."""
        return self.select_related("owner").prefetch_related("owner__roles")

    def of(self, user: "User") -> Self:
        """Keys that the user owns."""
        return self.filter(owner=user)
