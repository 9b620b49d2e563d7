"""What limits count, in words: the noun of each measure, and amounts with their units."""

from collections.abc import Callable
from decimal import Decimal

from django.utils.text import capfirst

from gateway_project.console.display.money import Figure, money, price, short_count
from gateway_project.env import MEASURES
from gateway_project.wording import plural

NOUNS = {"requests": "request", "tokens": "token", "cost": "cost", "concurrent": "concurrent request"}
LONG_MS = 10_000
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


def short_duration(milliseconds: float | None) -> Figure:
    """A time that something took, in seconds from ten seconds on; '' if it is not known."""
    if milliseconds is None:
        return Figure("", "")
    exact = f"{milliseconds:,.0f} ms"
    return Figure(exact if milliseconds < LONG_MS else f"{milliseconds / 1000:,.1f} s", exact)


CHOICES = [(measure, capfirst(NOUNS[measure] + ("" if measure == COST else "s"))) for measure in MEASURES]
