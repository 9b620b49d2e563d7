"""What the list of models shows of each: its price, its requests of the last days, and a link to try it."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.views import ChangeList

from gateway_project.console.display.money import price as exact_price
from gateway_project.console.links import link
from gateway_project.console.period import with_query
from gateway_project.hooks import Hook
from providers.console.model_links import price_form
from providers.models import Model, ModelPrice
from providers.pricing.prices import NOTHING, Price

# The requests of the last 30 days by the provider's id and the model's name; None if counting takes too long.
read_model_traffic: Hook[[Collection[tuple[int, str]]], dict[tuple[int, str], int] | None] = Hook("read_model_traffic")
# The number of rules that judge requests for a model at a provider, by the names of both.
count_rules_of_model: Hook[[str, str], int] = Hook("count_rules_of_model")


class Figures(NamedTuple):
    """The price of a model, if it has one, and its number of requests, if that is known."""

    price: Price | None
    requests: int | None


class ListedModel(Protocol):
    """A model of the list, with its figures."""

    name: str
    provider_id: int
    figures: Figures


class ModelList(ChangeList):
    """Reads the figures of all models of a page at once."""

    result_list: list[Any]  # models that have `figures` too

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        for model, figures in zip(self.result_list, figures_of(self.result_list), strict=True):
            model.figures = figures


def figures_of(models: Sequence[Model]) -> list[Figures]:
    """The figures of each model: one query for the prices, and one for the requests."""
    names = {name.lower() for model in models for name in (model.name, model.name_at_provider)}
    book, now = ModelPrice.objects.current().naming(names).book(), timezone.now().timestamp()
    traffic = read_model_traffic([(model.provider_id, model.name) for model in models])
    rows = []
    for model in models:
        host = urlsplit(model.provider.url).hostname or ""
        price = book.price(model.provider_id, host, model.name, now, model.upstream_name)
        requests = None if traffic is None else traffic.get((model.provider_id, model.name), 0)
        rows.append(Figures(price, requests))
    return rows


def price_cell(model: ListedModel) -> SafeString | str:
    """The price of input and output, and of a request if it has one; or a link to the form for it."""
    price = model.figures.price
    if price is None:
        return link("set a price", price_form(model.name, model.provider_id))
    amounts = {"input": price.input, "output": price.output}
    if price.request > NOTHING:
        amounts["a request"] = price.request
    texts = ((exact_price(amount, price.currency), name) for name, amount in amounts.items())
    return format_html("<span>{}</span>", format_html_join(", ", "{} {}", texts))


def try_link(model: Model) -> SafeString | str:
    """A link to the playground with the model; '' for a disabled provider, which the playground does not offer."""
    if not model.provider.enabled:
        return ""
    return link("Try", with_query(reverse("admin:playground"), {"model": model.name}))
