"""The error for a request that only a resting target can take: it says when that rest ends."""

import math
from collections.abc import Iterator
from operator import itemgetter

from gateway_project.errors import GatewayError, LimitError, ProviderOverloaded, RateLimited, ValidationError
from gateway_project.wording import plural
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.outcomes import outcome_at
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.kinds import LimitDescription
from gateway_project.work.routing.readiness import with_accounts
from gateway_project.work.snapshot.records import Target
from providers.catalogue import servable_targets
from telemetry.models import Candidate

TEXT = "The provider that can take this request rests. Send it again in {}."


def error_of_rest(failure: GatewayError, exchange: Exchange, gateway: Gateway) -> GatewayError:
    """The failure of the last candidate; if it was unfit and a fit target rests, the error that says how long."""
    if not isinstance(failure, ValidationError) or (soonest := _soonest(exchange, gateway)) is None:
        return failure
    seconds, target = soonest
    rest = gateway.rests.current(target)
    exchange.attempts.target = None  # no target that was asked has this error
    code = ProviderOverloaded.code if rest is None else rest.code
    return ProviderOverloaded(TEXT.format(plural(seconds, "second")), code=code, retry_after=seconds)


def error_of_sooner_rest(full: LimitError, exchange: Exchange, gateway: Gateway) -> LimitError:
    """The error of a limit; if a target's rest ends before a provider's limit resets, one that says so."""
    limit = full.limit
    if not isinstance(limit, LimitDescription) or not limit.subject.is_upstream:
        return full
    soonest = _soonest(exchange, gateway)
    if soonest is None or (full.retry_after is not None and full.retry_after <= soonest[0]):
        return full
    text = f"{full.message} Another provider may be asked again in {plural(soonest[0], 'second')}."
    return RateLimited(text, retry_after=soonest[0], limit=limit)


def _soonest(exchange: Exchange, gateway: Gateway) -> tuple[int, Target] | None:
    """The target that can take the request and whose rest ends first, with its seconds; None if there is none."""
    rests = ((_seconds_left(account, gateway), account) for account in _resting_accounts(exchange))
    return min(rests, key=itemgetter(0), default=None)


def _resting_accounts(exchange: Exchange) -> Iterator[Target]:
    """The resting accounts of targets that can take the request."""
    for target in servable_targets(exchange.decision.allowed):
        accounts = [
            account for account in with_accounts(target) if outcome_at(account, exchange)[0] == Candidate.RESTING
        ]
        if accounts and _fits(target, exchange):
            yield from accounts


def _fits(target: Target, exchange: Exchange) -> bool:
    """Whether its format can express the request."""
    (provider, model), request = target, exchange.request
    assert request is not None
    assert provider.format is not None, "only those with a format are servable"
    try:
        provider.format.request(request, provider.upstream_name(model), provider.options_for(model))
    except ValidationError:
        return False
    return True


def _seconds_left(target: Target, gateway: Gateway) -> int:
    """For how long it still rests, at least a second."""
    seconds = max(gateway.rests.seconds_left(target), gateway.breakers.seconds_left(target.provider))
    return max(math.ceil(seconds), 1)
