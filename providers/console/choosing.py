"""A new provider is asked for its models before it is saved; then the administrator chooses among them."""

import re
import time
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.site import console_site
from gateway_project.errors import ProviderError
from providers.discovery import ask_for_models
from providers.models import Provider
from providers.transport.transport import Transport

CHOOSE = "_choose"  # the button of the form for a new provider
CHOICE_FIELD = "_chosen"  # sent with the names that were chosen
CHOOSE_NONE = "_none"  # the button that chooses none of them
# The fields that are needed to ask a new provider: without valid values it is not asked.
CALL_FIELDS = {"url", "auth_method", "secret"}
PLACEHOLDER = re.compile(r"\b(RESOURCE|REGION|HOST)\b")  # of URLs of presets
MOST_SHOWN = 900  # Django refuses forms with more than 1,000 fields
NO_LIST = "The provider lists no models. Enter their names here."


class Trial(NamedTuple):
    """What a provider listed, and how long that took; or why it did not."""

    names: tuple[str, ...] = ()
    milliseconds: float = 0
    error: ProviderError | None = None


# What the new providers listed that are being saved at this moment: the form and the next page need it.
trials: WeakKeyDictionary[HttpRequest, Trial] = WeakKeyDictionary()


def try_provider(form: ServiceForm) -> Trial:
    """Ask the provider that a form describes; it is not asked while what is needed for that is not valid."""
    if not CALL_FIELDS.isdisjoint(form.errors):
        return Trial()
    values = form.cleaned_data
    started_at = time.perf_counter()
    try:
        names = ask_provider(
            url=values["url"],
            auth_method=values["auth_method"],
            credential=values["secret"],
            format_name=values["format"].name if "format" in values else "",  # absent if it is not valid
        )
    except ProviderError as error:
        return Trial(error=error)
    milliseconds = (time.perf_counter() - started_at) * 1000
    if not names and not values.get("new_models"):  # absent if it is not valid itself
        return Trial(error=ProviderError(NO_LIST, field="models"))
    return Trial(tuple(names), milliseconds)


def ask_provider(*, url: str, auth_method: str, credential: str, format_name: str) -> list[str]:
    """The names in the provider's list of models; raises ProviderError."""
    transport = Transport(networks=settings.GATEWAY_PROVIDER_NETWORKS, heartbeat_seconds=15)
    return ask_for_models(transport, url=url, auth_method=auth_method, credential=credential, format_name=format_name)


def new_names(provider: Provider, names: Iterable[str]) -> list[str]:
    """The names that are not models of the provider yet, neither by the provider's name nor by the gateway's."""
    present = {name for model in provider.models.all() for name in (model.name, model.name_at_provider)}
    return [name for name in dict.fromkeys(names) if name not in present]


def choice_page(request: HttpRequest, provider: Provider, names: list[str], sentence: str) -> HttpResponse:
    """The page that asks which of the listed models to add; all are chosen at first."""
    context = console_site().context(
        request, f"Models of {provider.name}", opts=Provider._meta, provider=provider, sentence=sentence,
        names=names[:MOST_SHOWN], more=max(0, len(names) - MOST_SHOWN), chosen=CHOICE_FIELD, none=CHOOSE_NONE,
        action=reverse("admin:providers_provider_fetch_models", args=[provider.pk]),
    )  # fmt: skip
    return TemplateResponse(request, "console/choose_models.html", context)
