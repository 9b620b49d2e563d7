"""Which target of an alias would serve a request now, as this process sees it, for the console and for commands."""

import math
import os
import time
from decimal import Decimal

from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.aliases import AliasTarget, Condition
from gateway_project.work.routing.strategies import Strategy, Weighted, order, signal_key
from gateway_project.work.snapshot.records import AliasSnapshot, ProviderSnapshot, Target
from providers.formats import Usage
from providers.pricing.prices import cost_of
from rules.aliases.routing import RoutedTarget

TOKENS = Usage(input=1000, output=1000)  # of the request whose cost the preview compares


def preview_alias(gateway: Gateway, alias_id: int) -> list[RoutedTarget] | None:
    """Its targets in the order of trying; None if it is not in memory."""
    alias = gateway.snapshot.aliases.by_id(alias_id)
    if alias is None:
        return None
    ready = [[one for one in tier if _state(one.target, gateway) == "ready"] for tier in alias.tiers]
    serving = next((number for number, tier in enumerate(ready) if any(not one.conditions for one in tier)), None)
    first = None if serving is None else _first(alias, ready[serving], gateway)
    return [
        _row(number, one, tier, gateway, serving=serving, first=first)
        for number, tier in enumerate(alias.tiers)
        for one in tier
    ]


def _first(alias: AliasSnapshot, tier: list[AliasTarget[ProviderSnapshot]], gateway: Gateway) -> Target | None:
    """The target that the strategy prefers; None if it shares requests by weight."""
    strategy = Strategy(alias.strategy)
    if strategy in (Strategy.WEIGHTED, Strategy.STICKY):
        return None
    weighted = [Weighted(one.target, one.weight) for one in tier if not one.conditions]

    def cost(target: Target) -> Decimal | None:
        price = gateway.snapshot.price(target, time.time())
        return None if price is None else cost_of(TOKENS, price)

    return order(strategy, weighted, os.urandom(8), gateway.signals, cost=cost)[0]


def _row(
    number: int,
    one: AliasTarget[ProviderSnapshot],
    tier: tuple[AliasTarget[ProviderSnapshot], ...],
    gateway: Gateway,
    *,
    serving: int | None,
    first: Target | None,
) -> RoutedTarget:
    provider, model = one.target
    state = _state(one.target, gateway)
    is_preferred = first is None or one.target.key == first.key
    serves = state == "ready" and number == serving and is_preferred
    seconds = gateway.signals.view(signal_key(one.target, is_streamed=True)).first_token_seconds
    return RoutedTarget(
        number + 1,
        provider.id,
        provider.name,
        model,
        round(100 * one.weight / sum(other.weight for other in tier), 1),
        ", ".join(map(words_of, one.conditions)),
        state,
        state == "ready",
        serves,
        _reason(state, number, serving, is_preferred=is_preferred, has_conditions=bool(one.conditions)),
        None if seconds is None else round(seconds * 1000, 1),
        gateway.signals.in_flight(provider.id, model),
    )


def _reason(state: str, number: int, serving: int | None, *, is_preferred: bool, has_conditions: bool) -> str:
    if state != "ready":
        return state
    if serving is not None and number > serving:
        return "waits for the tiers before it to fail"
    if has_conditions:
        return "serves the requests that meet its conditions"
    return "serves its share of the requests" if is_preferred else "the strategy prefers another target"


def _state(target: Target, gateway: Gateway) -> str:
    """Whether the target would be asked now, in words."""
    accounts = target.provider.accounts
    seconds = min(map(gateway.rests.seconds_left, accounts))
    if target.provider.format is None:
        return "its format is unknown to this version"
    if seconds:
        return f"rests for {math.ceil(seconds)} s more: the provider sent Retry-After"
    if all(map(gateway.breakers.is_resting, accounts)):
        return "its circuit is open: it failed several times in a row"
    return "a limit of the provider is used up" if all(map(gateway.full_providers.is_full, accounts)) else "ready"


def words_of(condition: Condition) -> str:
    """What must hold of a request, in words."""
    parts = [f"tag {name}={value}" for name, value in condition.tags]
    parts += [f"group={condition.group_id}"] if condition.group_id is not None else []
    parts += [f"user={condition.user_id}"] if condition.user_id is not None else []
    return ", ".join(parts + ([f"key={condition.key_name}"] if condition.key_name is not None else []))
