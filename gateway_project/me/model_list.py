"""The models that the user may use, with their prices."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from gateway_project.console.display.money import price as exact_price
from gateway_project.json_types import JsonObject
from gateway_project.me.site import caller, page, show_page
from gateway_project.work.doors.base import Model
from gateway_project.work.doors.model_list import allowed_models
from gateway_project.work.runtime import gateway
from keys.snippets import sample_request

NO_PRICE = "no price"
PRICES = ("Input", "Output")  # as a phone, which shows no heading, names them


@page
def model_list(request: HttpRequest) -> HttpResponse:
    """What `GET /v1/models` lists for the user's login, and how to ask for it."""
    running = gateway()
    user = running.snapshot.callers.get(caller(request).user.pk)
    models = allowed_models(user, None, running) if user is not None and user.usable else []
    context = {"rows": list(map(_row, models)), **(_first_request(models[0].name) if models else {})}
    return show_page(request, "models", "Models", context)


def _first_request(model: str) -> JsonObject:
    """A request for a model, as the page prints it; the user puts one of their keys into it."""
    return {"issued": {"text": "KEY"}, "base_url": settings.GATEWAY_BASE_URL, **sample_request(model)}


def _row(model: Model) -> JsonObject:
    price = model.price
    amounts = (
        [NO_PRICE] * len(PRICES)
        if price is None
        else [exact_price(amount, price.currency) for amount in (price.input, price.output)]
    )
    return {
        "name": model.name,
        "provider": model.provider,
        "context": f"{model.facts.context_length:,}" if model.facts.context_length else "",
        "prices": list(zip(PRICES, amounts, strict=True)),
    }
