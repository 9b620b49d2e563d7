"""The currency of an amount of zero."""

from django.core.cache import caches

from providers.models import ModelPrice

FRESH_SECONDS = 20


def usual_currency() -> str:
    """The currency of the prices, read once for a while; '' for no prices, or several currencies."""
    return str(caches["process"].get_or_set("usual-currency", ModelPrice.objects.not_over().currency, FRESH_SECONDS))


def cost_note() -> str:
    """The help text with the currency of amounts of cost; '' if the prices do not tell the currency."""
    currency = usual_currency()
    return f"A cost is in {currency}." if currency else ""
