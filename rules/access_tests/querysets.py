"""Every question to the database about access tests."""

from typing import Self, TypeVar

from django.db import models

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class AccessTestQuerySet(models.QuerySet[Row]):
    def shown(self) -> Self:
        """Tests with the user, the group and the provider that lists show, in one query."""
        return self.select_related("user", "group", "provider")
