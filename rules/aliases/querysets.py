"""Every question to the database about aliases."""

from typing import Self, TypeVar

from django.db import models

# The model that a queryset belongs to: models.py imports this module, so it cannot be named here.
Row = TypeVar("Row", bound=models.Model)


class AliasQuerySet(models.QuerySet[Row]):
    def enabled(self) -> Self:
        """Aliases that requests may use."""
        return self.filter(enabled=True)

    def patterns(self) -> Self:
        """Aliases that stand for all names that fit."""
        return self.filter(name__contains="*")

    def shown(self) -> Self:
        """Aliases with the targets and the mirror that lists show, in two queries."""
        targets = ("targets__model__provider", "targets__nested")
        return self.select_related("mirror__provider").prefetch_related(*targets)
