"""Every question to the database about providers and what they offer."""

from datetime import datetime
from operator import attrgetter
from typing import Self, TypeVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from providers.pricing.prices import PriceBook

# The model of a queryset. The models import this module, so the type is filled in where they create their managers.
RowT_co = TypeVar("RowT_co", bound=models.Model, covariant=True)


class ProviderQuerySet(models.QuerySet[RowT_co]):
    def enabled(self) -> Self:
        """Providers that may be sent work."""
        return self.filter(enabled=True)

    def offering(self, model_name: str) -> Self:
        """Providers with a model of exactly this name."""
        return self.filter(models__name=model_name)

    def shown(self) -> Self:
        """Providers with the format and the models that lists show, in two queries."""
        return self.select_related("format").prefetch_related("models")


class ModelQuerySet(models.QuerySet[RowT_co]):
    def of(self, provider: models.Model) -> Self:
        """Models of one provider."""
        return self.filter(provider=provider)


def is_current(at: datetime | None = None) -> Q:
    """The condition that a price holds at a moment (default: now)."""
    at = at or timezone.now()
    return Q(Q(valid_until=None) | Q(valid_until__gt=at), valid_from__lte=at)


class ModelPriceQuerySet(models.QuerySet[RowT_co]):
    def open(self) -> Self:
        """Prices without an end: only these can be changed."""
        return self.filter(valid_until=None)

    def current(self, at: datetime | None = None) -> Self:
        """Prices that hold at a moment (default: now)."""
        return self.filter(is_current(at))

    def book(self) -> PriceBook:
        """These prices, to look up what a model costs."""
        return PriceBook(map(attrgetter("offer"), self.iterator()))

    def not_over(self, at: datetime | None = None) -> Self:
        """Prices that hold at a moment (default: now), or will hold later."""
        return self.filter(Q(valid_until=None) | Q(valid_until__gt=at or timezone.now()))
