"""Every question to the database about the licence, limits and peaks."""

from collections.abc import Collection
from datetime import date
from typing import Self, TypeVar

from django.db import models
from django.db.models import Q

from accounts.models import Group, User
from providers.models import ModelPrice

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class LimitQuerySet(models.QuerySet[Row]):
    def shown(self) -> Self:
        """Limits with what lists show, in one query: the subject, and the currency of the prices."""
        limits = self.annotate(currency=ModelPrice.objects.not_over().common_currency())
        return limits.select_related("key", "user", "group", "provider")

    def of(self, user: User) -> Self:
        """Limits of the requests of a user: their own, and those of their keys and groups."""
        return self.filter(Q(user=user) | Q(key__owner=user) | Q(group__in=Group.objects.applying_to(user)))

    def in_groups(self, group_ids: Collection[int]) -> Self:
        """Limits of these groups, of their service accounts and of the keys of these."""
        accounts = User.objects.filter(owning_group__in=group_ids)
        return self.filter(Q(group__in=group_ids) | Q(user__in=accounts) | Q(key__owner__in=accounts))

    def effective(self) -> Self:
        """Limits with an amount: 0 is unlimited."""
        return self.filter(amount__gt=0)

    def longer_than_a_minute(self) -> Self:
        """Limits of a day or a month."""
        return self.filter(window__in=("day", "month"))


class DailyPeakQuerySet(models.QuerySet[Row]):
    def since(self, day: date) -> Self:
        """Peaks of this day and later ones, oldest first."""
        return self.filter(date__gte=day).order_by("date")
