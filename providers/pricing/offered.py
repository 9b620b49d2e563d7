"""Which prices are of models that providers offer."""

from collections import defaultdict
from collections.abc import Iterable
from urllib.parse import urlsplit

from providers.models import Model, ModelPrice
from providers.pricing.prices import Offer, PricedModel


def ids_of_offered() -> list[int]:
    """The ids of all prices, past ones included, that are of a model of some provider."""
    by_name: dict[str, list[PricedModel]] = defaultdict(list)
    subjects = list(map(_subject_of, Model.objects.select_related("provider")))
    for subject in subjects:
        for name in {subject.model, subject.upstream}:
            by_name[name].append(subject)
    # Most prices are public ones of models that nobody here offers: they are not even loaded.
    names = ModelPrice.objects.values_list("pk", "model")
    candidates = [pk for pk, model in names.iterator() if "*" in model or model in by_name]
    rows = ModelPrice.objects.in_bulk(candidates).values()
    return [row.pk for row in rows if _fits_any(row.offer, subjects if "*" in row.model else by_name[row.model])]


def ids_of_prices_of(models: Iterable[Model]) -> list[int]:
    """The ids of all prices, past ones and patterns included, that are of one of these models, with their providers."""
    subjects = list(map(_subject_of, models))
    names = {name for subject in subjects for name in (subject.model, subject.upstream)}
    prices = ModelPrice.objects.naming(names).iterator()
    return [price.pk for price in prices if _fits_any(price.offer, subjects)]


def _subject_of(model: Model) -> PricedModel:
    host = urlsplit(model.provider.url).hostname or ""
    return PricedModel(model.provider_id, host, model.name.lower(), model.name_at_provider.lower())


def _fits_any(offer: Offer, subjects: Iterable[PricedModel]) -> bool:
    return any(map(offer.fits, subjects))
