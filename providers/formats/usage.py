"""Token counts in one form for all providers."""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple, Self

# No request has as many tokens or costs as much in any currency. Greater values are errors of the provider.
MOST_TOKENS, MOST_MONEY = 2**40, 10**6
MONEY_DECIMALS = 12


class Usage(NamedTuple):
    """Tokens in disjoint buckets, but for two that are parts of others; None if not reported."""

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None  # part of output
    cache_write_hour: int | None = None  # part of cache_write: what the provider keeps for an hour, at another price
    cost: Decimal | None = None  # of the whole request, if the provider reports it

    @property
    def all_input(self) -> int:
        """Input of every kind, as OpenAI counts it."""
        return (self.input or 0) + (self.cache_read or 0) + (self.cache_write or 0)

    @classmethod
    def of_counts(cls, counts: Iterable[int | None]) -> Self:
        """The usage with these counts, in order; those that are missing at the end were not reported."""
        return cls(*counts)  # type: ignore[arg-type]  # the cost, the last field, is never among them


COUNTS = len(Usage._fields) - 1  # the number of its counts: all fields but the cost


def read_count(value: object) -> int | None:
    """A token count from a provider; None if it is not a possible count."""
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def count_or_zero(value: object) -> int | None:
    """As read_count(), for providers that leave out zeros."""
    return 0 if value is None else read_count(value)


def money(value: object) -> Decimal | None:
    """The cost of a request, as a provider reports it; None if it is not an amount."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST_MONEY:
        return None
    return round(Decimal(str(value)), MONEY_DECIMALS)
