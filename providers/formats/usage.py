"""Token counts in one form for all providers."""

from decimal import Decimal
from typing import NamedTuple

# No request has as many tokens or costs as much in any currency. Greater values are errors of the provider.
MOST_TOKENS, MOST_MONEY = 2**40, 10**6
MONEY_DECIMALS = 12


class Usage(NamedTuple):
    """Tokens in disjoint buckets, except reasoning, which is part of the output; None if not reported."""

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost: Decimal | None = None  # of the whole request, if the provider reports it

    @property
    def all_input(self) -> int:
        """Input of every kind, as OpenAI counts it."""
        return (self.input or 0) + (self.cache_read or 0) + (self.cache_write or 0)


def count(value: object) -> int | None:
    """A token count from a provider; None if it is not a possible count."""
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def count_or_zero(value: object) -> int | None:
    """As count(), for providers that leave out zeros."""
    return 0 if value is None else count(value)


def money(value: object) -> Decimal | None:
    """The cost of a request, as a provider reports it; None if it is not an amount."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST_MONEY:
        return None
    return round(Decimal(str(value)), MONEY_DECIMALS)
