"""The targets that can serve now, as far as this process knows: those that do not rest or fail or have a full limit."""

from collections.abc import Sequence

from gateway_project.work.failover.causes import cause_of_status
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import Target
from rules.aliases.models import FallbackCause

# The causes for which a target may not be able to serve even before it is asked.
STATE_CAUSES = frozenset((FallbackCause.ERROR, FallbackCause.RATE_LIMITED, FallbackCause.BUDGET))


def reachable_tiers(tiers: list[list[Target]], causes: frozenset[str], gateway: Gateway) -> list[list[Target]]:
    """The tiers up to the first that cannot serve now for a reason that is no cause to leave it."""
    if causes >= STATE_CAUSES:
        return tiers
    for number, tier in enumerate(tiers[:-1], 1):
        states = [_state(target, gateway) for target in tier]
        if None not in states and not causes.issuperset(filter(None, states)):
            return tiers[:number]
    return tiers


def with_accounts(target: Target) -> list[Target]:
    """The target with each credential of its provider."""
    if not target.provider.siblings:
        return [target]
    return [Target(account, target.model) for account in target.provider.accounts]


def without_resting(targets: Sequence[Target], gateway: Gateway) -> list[Target]:
    """Those, each with one credential, that neither rest nor fail; all of them if each does."""
    return gateway.breakers.with_closed_breakers(gateway.rests.without_resting(targets))


def without_full(targets: Sequence[Target], gateway: Gateway) -> list[Target]:
    """Those whose limits are not known to be full; all of them if each is. Those that pause come last."""
    return gateway.rests.with_pausing_last(gateway.full_providers.without_full(targets))


def account_state(target: Target, gateway: Gateway) -> FallbackCause | None:
    """Why a target would not be asked now with its credential; None if it would."""
    rest = gateway.rests.current(target)
    if rest is not None:
        return cause_of_status(rest.code)
    if gateway.breakers.is_resting(target.provider):
        return FallbackCause.ERROR
    if gateway.full_providers.is_full(target.provider):
        return FallbackCause.BUDGET
    return FallbackCause.RATE_LIMITED if gateway.rests.pause_of(target) is not None else None


def first_to_ask(ordered: Sequence[Target], causes: frozenset[str], gateway: Gateway) -> Target | None:
    """Which of these candidates is asked first, as failover passes over them; None if each asked for a rest."""
    for place, target in enumerate(ordered):
        others = ordered[place + 1 :]
        has_next_credential = bool(others) and others[0].key == target.key
        if (rest := gateway.rests.current(target)) is not None:
            if cause_of_status(rest.code) not in causes and not has_next_credential:
                return None
            continue
        is_last = all(gateway.rests.holds_back(other) for other in others)
        is_last = is_last or not (FallbackCause.ERROR in causes or has_next_credential)
        if is_last or not gateway.breakers.is_resting(target.provider):
            return target
    return None


def _state(target: Target, gateway: Gateway) -> FallbackCause | None:
    """Why a target would not be asked now; None if it would, with any of its credentials."""
    states = [account_state(account, gateway) for account in with_accounts(target)]
    return None if None in states else states[0]
