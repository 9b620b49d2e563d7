"""A candidate that failed is asked once more where no other one can serve."""

import time
from random import uniform

from gateway_project.errors import UpstreamError
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import Target, target_key

BACK_OFF_SECONDS = (0.1, 0.5)  # at random between these: requests that failed together do not come back together


def wait_for_retry(exchange: Exchange, gateway: Gateway, error: UpstreamError) -> bool:
    """Whether the first of the remaining candidates is to be asked again; returns when it is time to.

    Raises Interrupted if the call ends meanwhile.
    """
    seconds = uniform(*BACK_OFF_SECONDS)  # noqa: S311 - it has to spread, nobody guards anything with it
    if not _may_retry(exchange, gateway, error) or time.monotonic() + seconds >= exchange.call.total_deadline:
        return False
    if not gateway.retry_budget.take() or not exchange.call.prepare_retry():
        return False
    exchange.attempts.has_retried = True
    exchange.attempts.outcomes.pop(target_key(exchange.remaining[0]), None)
    exchange.call.wait(seconds)
    return True


def _may_retry(exchange: Exchange, gateway: Gateway, error: UpstreamError) -> bool:
    """Whether the same request may succeed a moment later, and nobody does its work twice."""
    target, *others = exchange.remaining
    if exchange.attempts.has_retried or not error.is_transient or error.code == 429:
        return False
    if error.may_have_worked and "HTTP_IDEMPOTENCY_KEY" not in exchange.connection.environ:
        return False
    rests = gateway.rests.current(target.provider) or gateway.breakers.is_resting(target.provider)
    if rests:
        return False
    return not (exchange.falls_back_on(error) and any(_can_serve(other, exchange, gateway) for other in others))


def _can_serve(target: Target, exchange: Exchange, gateway: Gateway) -> bool:
    return target not in exchange.limits.full_candidates and gateway.rests.current(target.provider) is None
