"""A request that no candidate can express, although a target that rests could: then the request is not wrong."""

import math
from collections.abc import Iterator

from gateway_project.errors import GatewayError, ProviderOverloaded, ValidationError
from gateway_project.wording import plural
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.outcomes import outcome_at
from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.readiness import with_accounts
from gateway_project.work.snapshot.records import Target
from providers.catalogue import servable_targets
from telemetry.models import Candidate

TEXT = "The provider that can take this request rests. Send it again in {}."


def error_of_rest(failure: GatewayError, exchange: Exchange, gateway: Gateway) -> GatewayError:
    """The failure of the last candidate; if it was unfit and a fit target rests, the error that says how long."""
    if not isinstance(failure, ValidationError):
        return failure
    rests = [
        (_seconds_left(target, gateway), target) for target in _resting_targets(exchange) if _fits(target, exchange)
    ]
    if not rests:
        return failure
    seconds, target = min(rests, key=lambda rest: rest[0])
    rest = gateway.rests.current(target)
    exchange.attempts.target = None  # it is the error of none that was asked
    code = ProviderOverloaded.code if rest is None else rest.code
    return ProviderOverloaded(TEXT.format(plural(seconds, "second")), code=code, retry_after=seconds)


def _resting_targets(exchange: Exchange) -> Iterator[Target]:
    for target in servable_targets(exchange.decision.allowed):
        for account in with_accounts(target):
            if outcome_at(account, exchange)[0] == Candidate.RESTING:
                yield account


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
