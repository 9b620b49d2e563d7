"""The bill of a request: its usage and cost. `billing.py` makes it when the request has ended."""

from decimal import Decimal
from typing import NamedTuple

from providers.formats import Usage
from providers.pricing.prices import NOT_KNOWN, Cost


class Bill(NamedTuple):
    """Tokens and money of one request; `cost` is None if no provider did any work."""

    usage: Usage | None = None
    estimated: bool = False  # whether (a part of) the usage was not reported by the provider
    cost: Cost | None = None
    saved: Decimal | None = None  # what a cached answer would have cost, in the same currency; None if unknown
    cost_of_server: Cost | None = None  # of the target that served, where a second one has worked in vain


NOTHING_BOUGHT = Bill()
COST_UNKNOWN = Bill(cost=NOT_KNOWN)
