"""What limits count, in words: the noun of each measure, and amounts with their units."""

from collections.abc import Callable
from decimal import Decimal

from django.utils.text import capfirst

from gateway_project.console.display.money import Figure, money, price, short_count
from gateway_project.env import MEASURES
from gateway_project.wording import plural

NOUNS = {"requests": "request", "tokens": "token", "cost": "cost", "concurrent": "concurrent request"}
COST, TOKENS = "cost", "tokens"


def limit_text(
    measure: str, window: str, amount: Decimal, currency: str, show_cost: Callable[[Decimal, str], str] = price
) -> str:
    """A limit in words: 600 requests per minute, 5 concurrent requests, $12.5 per month, cost of 12.5 per month."""
    period = "" if window == "none" else f" per {window}"
    if measure == COST:
        return f"{'' if currency else 'cost of '}{show_cost(amount, currency)}{period}"
    return f"{plural(int(amount), NOUNS[measure])}{period}"


def short_amount(measure: str, amount: Decimal, currency: str) -> Figure:
    """An amount without its unit, beside others."""
    if measure == COST:
        return money(amount, currency)
    return short_count(int(amount)) if measure == TOKENS else Figure(f"{amount:,.0f}", f"{amount:,.0f}")


CHOICES = [(measure, capfirst(NOUNS[measure] + ("" if measure == COST else "s"))) for measure in MEASURES]
