"""Every question to the database about providers and what they offer."""

from datetime import datetime
from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from providers.pricing.prices import PriceBook

if TYPE_CHECKING:
    from providers.models import Provider


class ProviderQuerySet(models.QuerySet["Provider"]):
    def enabled(self) -> Self:
        """Providers that may be sent work."""
        return self.filter(enabled=True)

    def offering(self, model_name: str) -> Self:
        """Providers with a model of exactly this name."""
        return self.filter(models__name=model_name)

    def shown(self) -> Self:
        """Providers with the format and the models that lists show, in two queries."""
        return self.select_related("format").prefetch_related("models")


class ModelQuerySet(models.QuerySet["Model"]):
    def of(self, provider: "Provider") -> Self:
        """Models of one provider."""
        return self.filter(provider=provider)


class ModelPriceQuerySet(models.QuerySet["ModelPrice"]):
    def open(self) -> Self:
        """Prices without an end: those that changes are made to."""
        return self.filter(valid_until=None)

    def current(self, at: datetime | None = None) -> Self:
        """Prices that hold at the given moment (now, unless told)."""
        at = at or timezone.now()
        return self.filter(Q(valid_until=None) | Q(valid_until__gt=at), valid_from__lte=at)

    def book(self) -> PriceBook:
        """These prices, to look up what a model costs."""
        return PriceBook(row.offer for row in self.iterator())

    def not_over(self, at: datetime | None = None) -> Self:
        """Prices that hold at the given moment (now, unless told), or will."""
        return self.filter(Q(valid_until=None) | Q(valid_until__gt=at or timezone.now()))
