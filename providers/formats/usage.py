"""Tokens as every provider counts them, made comparable."""

from decimal import Decimal
from typing import NamedTuple

# No request has as many tokens or costs as much, in whatever currency; who reports more is mistaken.
MOST_TOKENS, MOST_MONEY = 2**40, 10**6
MONEY_DECIMALS = 12


class Usage(NamedTuple):
    """Tokens in disjoint buckets, but for reasoning, which is part of the output; None where not reported."""

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost: Decimal | None = None  # what the provider itself says that all of it costs

    @property
    def all_input(self) -> int:
        """Input of every kind, as OpenAI counts it."""
        return (self.input or 0) + (self.cache_read or 0) + (self.cache_write or 0)


def count(value: object) -> int | None:
    """A token count a provider reports, None where it is none that a counter could have."""
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def count_or_zero(value: object) -> int | None:
    """The same where a provider leaves zeros out."""
    return 0 if value is None else count(value)


def money(value: object) -> Decimal | None:
    """An amount that a provider says the request cost, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST_MONEY:
        return None
    return round(Decimal(str(value)), MONEY_DECIMALS)
