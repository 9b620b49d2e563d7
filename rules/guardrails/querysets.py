"""Every question to the database about guardrails."""

from typing import Self, TypeVar

from django.db import models

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


class GuardrailQuerySet(models.QuerySet[Row]):
    def enabled(self) -> Self:
        """Guardrails that search requests or answers."""
        return self.filter(enabled=True)

    def in_order(self) -> Self:
        """In the order in which they are reported."""
        return self.order_by("position", "id")
