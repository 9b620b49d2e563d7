"""Every question to the database about access rules."""

from collections.abc import Collection
from typing import Self, TypeVar

from django.db import models
from django.db.models import Q

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)
ORDER_OF_JUDGING = ("-effect", "position", "id")  # deny is behind allow in the alphabet


class RuleQuerySet(models.QuerySet[Row]):
    def enabled(self) -> Self:
        """Rules that are evaluated."""
        return self.filter(enabled=True)

    def for_any_of(self, user_ids: Collection[int], group_ids: Collection[int]) -> Self:
        """Rules for everyone, and for these users and groups."""
        return self.filter(~Q(everyone="") | Q(user__in=user_ids) | Q(group__in=group_ids))

    def delegated_to(self, group_id: int | None) -> Self:
        """Rules that admins of a group wrote last, for it."""
        return self.filter(is_delegated=True, group=group_id)

    def applying_at(self, provider: str) -> Self:
        """Rules for requests at the provider with this name: those for any provider, too."""
        return self.filter(Q(provider=None) | Q(provider__name=provider))

    def in_order_of_judging(self) -> Self:
        """Rules that deny before those that allow, each kind by position and id."""
        return self.order_by(*ORDER_OF_JUDGING)

    def shown(self) -> Self:
        """Rules with the user, the group and the provider that lists show, in one query."""
        return self.select_related("user", "group", "provider")
