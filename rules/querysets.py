"""Every question to the database about access rules."""

from typing import Self, TypeVar

from django.db import models

# The model that a queryset belongs to: models.py imports this module, so it cannot be named here.
Row = TypeVar("Row", bound=models.Model)


class RuleQuerySet(models.QuerySet[Row]):
    def enabled(self) -> Self:
        """Rules that are evaluated."""
        return self.filter(enabled=True)

    def in_order_of_judging(self) -> Self:
        """Rules that deny before those that allow, each kind by id."""
        return self.order_by(models.Case(models.When(effect="deny", then=0), default=1), "id")

    def shown(self) -> Self:
        """Rules with the user, the group and the provider that lists show, in one query."""
        return self.select_related("user", "group", "provider")
