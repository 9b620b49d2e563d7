"""Where a missing price is set."""

from urllib.parse import urlencode

from django.urls import reverse

from providers.models import Model


def price_form(model: str, provider_id: int | None = None) -> str:
    """The form for a price of a model, filled in if such a model exists."""
    names = {name: value for name, value in {"model": model, "provider": provider_id}.items() if value}
    return f"{reverse('admin:providers_modelprice_add')}?{urlencode(names)}"


def model_of(names: dict[str, str]) -> Model | None:
    """The model that such an address names, also as `provider/model`; only an existing one fills in a form."""
    name, provider = names.get("model", ""), names.get("provider", "")
    rows = Model.objects.select_related("provider").order_by("pk")
    if provider:
        rows = rows.filter(provider_id=provider if _is_id(provider) else 0)
    return rows.filter(name=name).first() or rows.filter(name=name.rpartition("/")[2]).first()


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
