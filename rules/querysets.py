"""Every question to the database about access rules."""

from typing import Self

from django.db import models


class RuleQuerySet(models.QuerySet["Rule"]):
    def enabled(self) -> Self:
        """Rules that are evaluated."""
        return self.filter(enabled=True)

    def shown(self) -> Self:
        """Rules with the user, the group and the provider that lists show, in one query."""
        return self.select_related("user", "group", "provider")
