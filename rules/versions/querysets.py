"""Every question to the database about versions of rules."""

from datetime import datetime
from typing import Self, TypeVar

from django.db import models
from django.db.models import Max

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class RuleVersionQuerySet(models.QuerySet[Row]):
    def of(self, rule_id: int) -> Self:
        """The versions of one rule, the newest first."""
        return self.filter(rule_id=rule_id).order_by("-number")

    def newest(self) -> Self:
        """Of these versions, the newest of each rule."""
        return self.filter(pk__in=self.order_by().values("rule_id").annotate(newest=Max("pk")).values("newest"))

    def at(self, moment: datetime) -> Self:
        """The version of each rule that was in force at a moment; that of a deleted rule says so."""
        return self.model._default_manager.filter(  # type: ignore[return-value]
            pk__in=self.filter(created_at__lte=moment).newest().values("pk")
        )

    def of_group_admins(self, group_id: object) -> Self:
        """Versions of rules that admins of this group wrote for it."""
        return self.filter(is_delegated=True, attributes__group_id=group_id)

    def of_deleted_rules(self) -> Self:
        """The last version of each rule that is deleted now, the last deleted first."""
        return self.newest().filter(change="delete").order_by("-pk")
