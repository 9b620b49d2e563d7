"""Every question to the database about access requests."""

from collections.abc import Collection
from datetime import datetime
from typing import Self, TypeVar

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.db.models import Q

from providers.models import ModelPrice

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class AccessRequestQuerySet(models.QuerySet[Row]):
    def open(self) -> Self:
        """Requests that wait for a decision."""
        return self.filter(state="open")

    def granted(self) -> Self:
        """Requests whose grant is in force."""
        return self.filter(state="granted")

    def closed(self) -> Self:
        """Requests about which nothing more can be done."""
        return self.exclude(state__in=("open", "granted"))

    def due(self, at: datetime) -> Self:
        """Requests whose grant was to end by a moment, and has not."""
        return self.granted().filter(ends_at__lte=at)

    def of(self, user: AbstractBaseUser) -> Self:
        """Requests that a user has made."""
        return self.filter(user=user)

    def decidable(self, *, kinds: Collection[str], group_ids: Collection[int]) -> Self:
        """Requests of these kinds, and those for membership of these groups."""
        return self.filter(Q(kind__in=kinds) | Q(kind="membership", group__in=group_ids))

    def shown(self) -> Self:
        """Requests with what lists show, in one query: whom they are about, and the currency of the prices."""
        requests = self.annotate(currency=ModelPrice.objects.not_over().common_currency())
        return requests.select_related("user", "provider", "group", "decided_by")
