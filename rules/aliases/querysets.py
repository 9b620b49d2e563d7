"""Every question to the database about aliases."""

from typing import Self, TypeVar

import re2
from django.db import models

from gateway_project.name_patterns import compile_pattern

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class AliasQuerySet(models.QuerySet[Row]):
    def enabled(self) -> Self:
        """Aliases that requests may use."""
        return self.filter(enabled=True)

    def patterns(self) -> Self:
        """Aliases that stand for all names that fit."""
        return self.filter(name__contains="*")

    def stands_for(self, name: str) -> bool:
        """Whether an alias, enabled or not, has this name or is a pattern that it fits."""
        patterns = self.patterns().values_list("name", flat=True)
        return self.filter(name=name).exists() or any(_matches_alias_name(name, pattern) for pattern in patterns)

    def shown(self) -> Self:
        """Aliases with the targets and the mirror that lists show, in two queries."""
        targets = ("targets__model__provider", "targets__nested")
        return self.select_related("mirror__provider").prefetch_related(*targets)


def _matches_alias_name(name: str, pattern: str) -> bool:
    """Whether a name fits the name of an alias in which each star stands for any text."""
    return compile_pattern("(?s)" + ".*".join(map(re2.escape, pattern.split("*")))).fullmatch(name) is not None
