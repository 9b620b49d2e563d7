"""The currency of an amount of zero, and what forms say of the currency of a cost."""

from collections.abc import Sequence

from django.core.cache import caches

from providers.models import ModelPrice
from providers.pricing.prices import MIXED

FRESH_SECONDS = 20


def usual_currency() -> str:
    """The currency of the prices, read once for a while; '' for no prices, or several currencies."""
    currencies = _recent_currencies()
    return currencies[0] if len(currencies) == 1 else ""


def limit_currency() -> str:
    """The currency in which limits count costs, as LimitQuerySet.shown() names it: EUR, EUR+USD, MIXED; '' for none."""
    currencies = _recent_currencies()
    return "+".join(currencies) if len(currencies) <= 2 else MIXED


def cost_note() -> str:
    """The help text of amounts of cost, from prices that were read once for a while; '' if there are no prices."""
    return note_of(_recent_currencies())


def current_currencies() -> list[str]:
    """The currencies of the prices that hold now or will hold."""
    return list(ModelPrice.objects.not_over().order_by("currency").values_list("currency", flat=True).distinct())


def note_of(currencies: Sequence[str]) -> str:
    """Which currency an amount of cost is in. Limits do not convert: of several, they add up the plain amounts."""
    if len(currencies) <= 1:
        return "".join(f"A cost is in {currency}." for currency in currencies)
    names = f"{', '.join(currencies[:-1])} and {currencies[-1]}"
    return f"Prices are in {names}: costs are added up without conversion."


def _recent_currencies() -> list[str]:
    return list(caches["process"].get_or_set("currencies", current_currencies, FRESH_SECONDS) or [])
