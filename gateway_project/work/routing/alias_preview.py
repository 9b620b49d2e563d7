"""Which target of an alias would serve a request now, as this process sees it, for the console and for commands."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.aliases import AliasTarget, Condition
from gateway_project.work.routing.readiness import (
    account_state,
    first_to_ask,
    reachable_tiers,
    with_accounts,
    without_full,
    without_resting,
)
from gateway_project.work.routing.strategies import DRAWABLE, Strategy, Weighted, rank_targets, signal_key
from gateway_project.work.snapshot.records import AliasSnapshot, ProviderSnapshot, Target
from providers.catalogue import servable_targets
from providers.formats import Usage
from providers.pricing.prices import cost_of
from rules.aliases.routing import RoutedTarget

Routed = AliasTarget[ProviderSnapshot]
TOKENS = Usage(input=1000, output=1000)  # of the request whose cost the preview compares
READY = "ready"
BEHIND = "waits for the tiers before it to fail"


def preview_alias(gateway: Gateway, alias_id: int) -> list[RoutedTarget] | None:
    """Its targets in the order of trying; None if it is not in memory."""
    alias = gateway.snapshot.aliases.by_id(alias_id)
    if alias is None:
        return None
    preview = Preview(alias, gateway)
    return [preview.row(number, routed) for number, tier in enumerate(alias.tiers) for routed in tier]


class Preview:
    """What the gateway would do with a streamed request that meets no target's conditions. Nothing is changed by it."""

    def __init__(self, alias: AliasSnapshot, gateway: Gateway) -> None:
        self._alias, self._gateway = alias, gateway
        self._strategy = Strategy(alias.strategy)
        self._signals = gateway.signals.without_exploration()
        self._tiers = _plain_tiers(alias)  # by number; the drained ones of each last, as they are drawn
        self._serving = {number: serving for number in self._tiers if (serving := self._serving_in(number))}

    def row(self, number: int, routed: Routed) -> RoutedTarget:
        """A target, of the tier with this number, as the page shows it."""
        provider, model = routed.target
        state, serves = state_of(routed.target, self._gateway), _is_one_of(routed, self._serving.get(number, ()))
        seconds = self._signals.view(signal_key(routed.target, is_streamed=True)).first_token_seconds
        return RoutedTarget(
            number + 1,
            provider.id,
            provider.name,
            model,
            self._share(number, routed),
            ", ".join(map(words_of, routed.conditions)),
            state,
            state == READY,
            serves,
            self._reason(number, routed, state, serves=serves),
            None if seconds is None else round(seconds * 1000, 1),
            self._signals.in_flight(provider.id, model),
        )

    def _serving_in(self, number: int) -> list[Routed]:
        """Those of a tier that some request would be sent to first."""
        tier = self._tiers[number]
        return [
            routed for routed in tier if any(self._is_asked(routed, drawn) for drawn in _possible_draws(tier, routed))
        ]

    def _is_asked(self, one: Routed, drawn: list[Routed]) -> bool:
        """Whether a target is asked first where its tier is drawn like this."""
        tiers = [self._rank_tier(drawn if _is_one_of(one, tier) else tier) for tier in self._tiers.values()]
        causes, gateway = self._alias.fallback_on, self._gateway
        targets = [target for tier in reachable_tiers(tiers, causes, gateway) for target in tier]
        accounts = [one for target in targets for one in with_accounts(target)]
        ready = without_full(without_resting(accounts, gateway), gateway)
        first = first_to_ask(ready, causes, gateway)
        return first is not None and first.key == one.target.key

    def _rank_tier(self, tier: Sequence[Routed]) -> list[Target]:
        weighted = [Weighted(routed.target, routed.weight) for routed in tier]
        return rank_targets(self._strategy, weighted, self._signals, cost=self._cost, is_streamed=True)

    def _cost(self, target: Target) -> Decimal | None:
        price = self._gateway.snapshot.price(target, time.time())
        return None if price is None else cost_of(TOKENS, price)

    def _share(self, number: int, routed: Routed) -> float:
        """Its part of the weights of those that are ready in its tier, in percent; of all weights if none is."""
        tier = self._alias.tiers[number]
        ready = [other for other in tier if state_of(other.target, self._gateway) == READY] or tier
        return (
            round(100 * routed.weight / sum(other.weight for other in ready), 1) if _is_one_of(routed, ready) else 0.0
        )

    def _reason(self, number: int, routed: Routed, state: str, *, serves: bool) -> str:
        if state != READY:
            return f"{state}; it is asked anyway, because no target is ready" if serves else state
        if routed.conditions:
            return "serves the requests that meet its conditions"
        if serves:
            return "serves its share of the requests"
        if not _is_one_of(routed, self._tiers.get(number, ())):
            return "the same target comes before it"
        return self._reason_to_wait(number, routed)

    def _reason_to_wait(self, number: int, routed: Routed) -> str:
        if number not in self._serving:
            is_behind = any(place < number for place in self._serving)
            return BEHIND if is_behind else "the tiers before it cannot serve, for a reason that is not in fallbackOn"
        return "serves if no other of its tier can" if _is_drained(routed) else "the strategy prefers another target"


def _plain_tiers(alias: AliasSnapshot) -> dict[int, list[Routed]]:
    """The targets that serve whatever the request is, each once: where it comes first."""
    tiers: dict[int, list[Routed]] = {}
    keys: set[tuple[int, str]] = set()
    for number, tier in enumerate(alias.tiers):
        for routed in tier:
            if not routed.conditions and routed.target.key not in keys and servable_targets((routed.target,)):
                keys.add(routed.target.key)
                tiers.setdefault(number, []).append(routed)
    return {number: sorted(tier, key=_is_drained) for number, tier in tiers.items()}


def _possible_draws(tier: list[Routed], routed: Routed) -> Iterator[list[Routed]]:
    """The tier as it may be drawn, as far as that matters to one of its targets: this one first, and last."""
    others = [other for other in tier if other is not routed]
    yield sorted([routed, *others], key=_is_drained)
    yield sorted([*others, routed], key=_is_drained)


def _is_drained(routed: Routed) -> bool:
    return routed.weight < DRAWABLE


def _is_one_of(routed: Routed, others: Iterable[Routed]) -> bool:
    return any(other is routed for other in others)


def state_of(target: Target, gateway: Gateway) -> str:
    """Whether the target would be asked now with one of its credentials, in words."""
    if target.provider.format is None:
        return "its format is unknown to this version"
    accounts = with_accounts(target)
    if any(account_state(account, gateway) is None for account in accounts):
        return READY
    reasons = list(dict.fromkeys(_account_words(account, accounts, gateway) for account in accounts))
    return reasons[0] if len(reasons) == 1 else f"none of its credentials is ready: {'; '.join(reasons)}"


def _account_words(account: Target, accounts: Sequence[Target], gateway: Gateway) -> str:
    """Why it is not asked with one credential; how long they rest is said once, for the first to be asked again."""
    if gateway.rests.current(account) is not None:
        seconds = min(filter(None, map(gateway.rests.seconds_left, accounts)))
        return f"rests for {math.ceil(seconds)} more seconds: the provider sent Retry-After"
    if gateway.breakers.is_resting(account.provider):
        return "its circuit is open: it failed several times in a row"
    is_full = gateway.full_providers.is_full(account.provider)
    return (
        "a limit of the provider is used up" if is_full else "the provider refused a request with it a moment ago (429)"
    )


def words_of(condition: Condition) -> str:
    """What must hold of a request, in words."""
    parts = [f"tag {name}={value}" for name, value in condition.tags]
    parts += [f"group={condition.group_id}"] if condition.group_id is not None else []
    parts += [f"user={condition.user_id}"] if condition.user_id is not None else []
    return ", ".join(parts + ([f"key={condition.key_name}"] if condition.key_name is not None else []))
