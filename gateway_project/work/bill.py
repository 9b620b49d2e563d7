"""The bill of a request: its usage and cost. `billing.py` makes it when the request has ended."""

from decimal import Decimal
from typing import Any, NamedTuple

from providers.formats import Usage
from providers.pricing.prices import ESTIMATED, KNOWN, NOT_KNOWN, Cost


class Bill(NamedTuple):
    """Tokens and money of one request; `cost` is None if no provider did any work."""

    usage: Usage | None = None
    estimated: bool = False  # whether (a part of) the usage was not reported by the provider
    cost: Cost | None = None
    saved: Decimal | None = None  # what a cached answer would have cost, in the same currency; None if unknown
    cost_of_server: Cost | None = None  # of the target that served, where a second one has worked in vain

    def with_other(self, other: "Bill") -> "Bill":
        """The bill of both."""
        usage, cost = _total_usage(self.usage, other.usage), total_cost(self.cost, other.cost)
        return Bill(usage, self.estimated or other.estimated, cost)


def total_cost(one: Cost | None, other: Cost | None) -> Cost | None:
    """Both costs together; if only one of them is known, that one as an estimate."""
    if one is None or other is None:
        return one or other
    if one.amount is None or other.amount is None or one.currency != other.currency:
        single = other if one.amount is None else one
        return single if single.amount is None else single._replace(status=ESTIMATED)
    status = KNOWN if one.status == other.status == KNOWN else ESTIMATED
    return Cost(one.amount + other.amount, one.currency, status)


def _total_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    return Usage(*[_sum(*pair) for pair in zip(one, other, strict=True)])


def _sum(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


NOTHING_BOUGHT = Bill()
COST_UNKNOWN = Bill(cost=NOT_KNOWN)
