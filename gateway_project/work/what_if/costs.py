"""What recorded requests would have cost with a draft in force."""

import time
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from gateway_project.work.snapshot.records import Snapshot, Target
from gateway_project.work.what_if.outcome import Change, Judgement, Money
from gateway_project.work.what_if.traffic import Traffic
from providers.catalogue import Target as AnyTarget
from providers.pricing.prices import Price, cost_of

NOTHING = Money(Decimal(0), "")


class Costs:
    """The prices of now, and those of the draft."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self._before, self._after = before, after
        self.changes_prices = before.prices is not after.prices
        self._now = time.time()  # one moment for all: prices do not change in the middle

    def judgement_of(self, traffic: Traffic, change: Change, first: Sequence[Target]) -> Judgement:
        """The change with the cost; one that changes the cost alone is REPRICED.

        `first` are the targets that may be asked first with the draft.
        """
        if change is Change.DENIED:
            return Judgement(change, NOTHING)
        if change is Change.REROUTED:
            return Judgement(change, self._cost_at(first[0], traffic))
        cost = None if traffic.cost is None else Money(traffic.cost, traffic.currency)
        if change is Change.ALLOWED:
            return Judgement(change, cost if traffic.provider_id else None)
        if self.changes_prices and (target := self._repriced_target(traffic)) is not None:
            return Judgement(Change.REPRICED, self._cost_at(target, traffic))
        return Judgement(change, cost)

    def for_limits(self, traffic: Traffic, targets: Sequence[Target], *, is_draft: bool) -> Decimal | None:
        """What limits count for the request at the first of these targets, now or with the draft; None: no price."""
        if not targets or traffic.is_from_cache:
            return Decimal(0)
        provider, model = targets[0]
        is_served = model == traffic.served_model and provider.id == traffic.provider_id
        if (
            is_served
            and traffic.cost is not None
            and not (is_draft and self.changes_prices and self._repriced_target(traffic))
        ):
            return traffic.cost
        price = (self._after if is_draft else self._before).price(targets[0], self._now)
        return None if price is None else _cost(traffic, price)

    def _cost_at(self, target: Target, traffic: Traffic) -> Money | None:
        """The cost of the same tokens at a target, at the price of the draft; None without one."""
        price = self._after.price(target, self._now)
        if price is None:
            return None
        return Money(_cost(traffic, price), price.currency)

    def _repriced_target(self, traffic: Traffic) -> Target | None:
        """The target that served the requests, if its price is another; None if not, or if nothing was bought."""
        if traffic.is_from_cache or not traffic.usage.all_input + (traffic.usage.output or 0):
            return None
        provider = self._after.providers.get(traffic.provider_id or 0)
        if provider is None:
            return None
        target = AnyTarget(provider, traffic.served_model)
        before, after = (snapshot.price(target, self._now) for snapshot in (self._before, self._after))
        return target if before != after else None


def _cost(traffic: Traffic, price: Price) -> Decimal:
    """The exact cost of requests that all have the same one of the price's tiers."""
    tier = replace(price.for_input(traffic.longest_input), longer=None)
    return cost_of(traffic.usage, tier) + tier.request * (traffic.requests - 1)
