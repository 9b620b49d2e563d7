"""The order in which the targets of a request are asked: tier after tier, within each by its strategy."""

import os
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import groupby
from time import time

from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.demand import estimate_demand
from gateway_project.work.routing.sessions import session_seed
from gateway_project.work.routing.strategies import Strategy, Weighted, order_targets
from gateway_project.work.snapshot.records import Target, Tiers
from providers.formats import Usage
from providers.pricing.prices import cost_of


def tiers_of(exchange: Exchange, targets: Sequence[Target]) -> list[list[Weighted[Target]]]:
    """These targets in tiers, best first: those of the alias, else the providers with the same priority."""
    return in_tiers(targets, None if exchange.decision.alias is None else exchange.decision.tiers)


def in_tiers(targets: Sequence[Target], alias_tiers: Tiers | None) -> list[list[Weighted[Target]]]:
    """The same, without a request."""
    if alias_tiers is not None:
        keys = {target.key for target in targets}
        tiers = ([Weighted(one.target, one.weight) for one in tier if one.target.key in keys] for tier in alias_tiers)
        return [tier for tier in tiers if tier]
    by_priority = sorted(targets, key=_priority)
    return [
        [Weighted(target, target.provider.weight) for target in group]
        for _, group in groupby(by_priority, key=_priority)
    ]


def seed_of(exchange: Exchange) -> bytes:
    """A digest of the request, or of its session: who draws by it gets the same target for the same seed.

    Identical requests go to the same provider, whose cached answer and flight they share.
    """
    assert exchange.request is not None
    if strategy_of(exchange) is Strategy.STICKY:
        return session_seed(exchange.options.session, exchange.request.body)
    return exchange.selection.digest or os.urandom(16)


def in_order(tier: Sequence[Weighted[Target]], exchange: Exchange, gateway: Gateway, seed: bytes) -> list[Target]:
    """The targets of a tier in the order of its strategy."""
    request, strategy = exchange.request, strategy_of(exchange)
    assert request is not None
    cost = _cost_at(exchange, gateway) if strategy is Strategy.CHEAPEST else _no_cost
    return order_targets(strategy, tier, seed, gateway.signals, cost=cost, is_streamed=request.stream)


def strategy_of(exchange: Exchange) -> Strategy:
    """The strategy that the client asks for, else that of the alias."""
    alias = exchange.decision.alias
    name = exchange.options.strategy or (alias.strategy if alias is not None else "")
    return Strategy(name) if name else Strategy.WEIGHTED


def _cost_at(exchange: Exchange, gateway: Gateway) -> Callable[[Target], Decimal | None]:
    """The estimated cost of a request at each target."""
    assert exchange.request is not None
    demand, now = estimate_demand(exchange.request), time()
    usage = Usage(input=demand.input, output=demand.output)

    def cost(target: Target) -> Decimal | None:
        price = gateway.snapshot.price(target, now)
        return cost_of(usage, price) if price is not None else None

    return cost


def _no_cost(target: Target) -> None:
    """No strategy but `cheapest` asks for it."""


def _priority(target: Target) -> int:
    return target.provider.priority
