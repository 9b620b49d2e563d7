"""Every question to the database about providers and what they offer."""

from collections.abc import Collection
from datetime import datetime
from operator import attrgetter
from typing import Self, TypeVar

from django.db import models
from django.db.models import Case, Count, Max, Min, Q, Subquery, Value, When
from django.db.models.functions import Coalesce, Concat
from django.db.models.lookups import Exact
from django.utils import timezone

from providers.pricing.prices import MIXED, PriceBook

# The model of a queryset. The models import this module, so the type is filled in where they create their managers.
RowT_co = TypeVar("RowT_co", bound=models.Model, covariant=True)


# The currency of all rows of a query, such as EUR, EUR+USD or MIXED; null without rows.
COMMON_CURRENCY = Case(
    When(Exact(Count("currency", distinct=True), 1), then=Min("currency")),
    When(Exact(Count("currency", distinct=True), 2), then=Concat(Min("currency"), Value("+"), Max("currency"))),
    When(Exact(Count("currency", distinct=True), 0), then=None),
    default=Value(MIXED),
)


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

    def served(self) -> Self:
        """Enabled providers with all that requests need of them."""
        return self.enabled().select_related("format").prefetch_related("models", "credentials")


class CredentialQuerySet(models.QuerySet[RowT_co]):
    def of(self, provider: models.Model) -> Self:
        """Further credentials of one provider."""
        return self.filter(provider=provider)

    def usable(self) -> Self:
        """Credentials that requests may be sent with."""
        return self.filter(enabled=True).exclude(credential="")


class ModelQuerySet(models.QuerySet[RowT_co]):
    def of(self, provider: models.Model) -> Self:
        """Models of one provider."""
        return self.filter(provider=provider)

    def named(self, name: str) -> Self:
        """The model that `provider/model` names exactly; without such a one, all models with exactly this name."""
        provider, _, own_name = name.partition("/")
        of_provider = self.filter(provider__name=provider, name=own_name)
        return of_provider if of_provider.exists() else self.filter(name=name)

    def upstream_names(self) -> dict[tuple[int, str], str]:
        """What providers are asked for where that differs from our name, by provider id and our name."""
        rows = self.exclude(upstream_name="").values_list("provider_id", "name", "upstream_name")
        return {(provider_id, name): upstream for provider_id, name, upstream in rows}


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

    def naming(self, names: Collection[str]) -> Self:
        """Prices that may be of models with these names, in lower case: by the name, or by a pattern."""
        return self.filter(Q(model__in=names) | Q(model__contains="*"))

    def book(self) -> PriceBook:
        """These prices, to look up what a model costs."""
        return PriceBook(map(attrgetter("offer"), self.iterator()), self.currency())

    def currency(self) -> str:
        """The currency of all these prices, such as EUR, EUR+USD or MIXED; '' for no prices."""
        return self.aggregate(currency=COMMON_CURRENCY)["currency"] or ""

    def common_currency(self) -> Coalesce:
        """The same as a value for another query."""
        one_group = self.order_by().values(group=Value(1)).annotate(common=COMMON_CURRENCY)
        return Coalesce(Subquery(one_group.values("common")), Value(""))

    def not_over(self, at: datetime | None = None) -> Self:
        """Prices that hold at a moment (default: now), or will hold later."""
        return self.filter(Q(valid_until=None) | Q(valid_until__gt=at or timezone.now()))
