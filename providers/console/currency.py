"""The currency that an amount of nothing has."""

from django.core.cache import caches

from providers.models import ModelPrice

FRESH_SECONDS = 20


def usual_currency() -> str:
    """The currency of the prices, read once for a while; '' for no prices, or several currencies."""
    return str(caches["process"].get_or_set("usual-currency", ModelPrice.objects.not_over().currency, FRESH_SECONDS))


def cost_note() -> str:
    """In which currency a form takes an amount of cost; '' where the prices do not say it."""
    currency = usual_currency()
    return f"A cost is in {currency}." if currency else ""
