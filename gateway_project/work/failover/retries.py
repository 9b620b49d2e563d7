"""A provider that failed is asked once more where no other one can serve, with another credential if it has one."""

import time
from collections.abc import Iterator
from random import uniform

from gateway_project.errors import UpstreamError
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.causes import cause_of, is_about_account
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import Target, target_key
from providers.health.rests import TOO_MANY_REQUESTS

BACK_OFF_SECONDS = (0.1, 0.5)  # at random between these: requests that failed together do not come back together


def wait_for_retry(exchange: Exchange, gateway: Gateway, error: UpstreamError) -> bool:
    """Whether to ask the provider of the first remaining candidate again; returns when it is time to do so.

    The next candidate is then another credential of the provider that can serve; if none can, all others are removed
    from the candidates. After an error that concerns one account, the others stay: they are asked in any case. Raises
    Interrupted if the call ends meanwhile.
    """
    if exchange.has_next_credential and is_about_account(error):
        return False
    is_granted = _has_waited(exchange, gateway, error)
    _keep_credential(exchange, next(_ready_siblings(exchange, gateway), None) if is_granted else None)
    if is_granted and not exchange.has_next_credential:  # the same one is asked again
        exchange.attempts.outcomes.pop(target_key(exchange.remaining[0]), None)
    return is_granted


def _has_waited(exchange: Exchange, gateway: Gateway, error: UpstreamError) -> bool:
    seconds = uniform(*BACK_OFF_SECONDS)  # noqa: S311 - it has to spread, nobody guards anything with it
    if not _may_retry(exchange, gateway, error) or time.monotonic() + seconds >= exchange.call.total_deadline:
        return False
    if not gateway.retry_budget.take() or not exchange.call.prepare_retry():
        return False
    exchange.attempts.has_retried = True
    exchange.call.wait(seconds)
    return True


def _may_retry(exchange: Exchange, gateway: Gateway, error: UpstreamError) -> bool:
    """Whether the same request may succeed a moment later, and nobody does its work twice."""
    target, *others = exchange.remaining
    if exchange.attempts.has_retried or not error.is_transient or error.code == TOO_MANY_REQUESTS:
        return False
    if error.may_have_worked and "HTTP_IDEMPOTENCY_KEY" not in exchange.connection.environ:
        return False
    rests = gateway.rests.current(target) or gateway.breakers.is_resting(target.provider)
    if rests and next(_ready_siblings(exchange, gateway), None) is None:
        return False
    may_serve = (other.key != target.key and _can_serve(other, exchange, gateway) for other in others)
    return not (cause_of(error) in exchange.fallback_on and any(may_serve))


def _ready_siblings(exchange: Exchange, gateway: Gateway) -> Iterator[Target]:
    """The other credentials of the first of the remaining candidates that can serve now."""
    first, *others = exchange.remaining
    for other in others:
        is_sibling = other.key == first.key and _can_serve(other, exchange, gateway)
        if is_sibling and not gateway.breakers.is_resting(other.provider):
            yield other


def _keep_credential(exchange: Exchange, target: Target | None) -> None:
    """Leave out the other credentials of the first of the remaining candidates, but for the chosen one."""
    first, *others = exchange.remaining
    if exchange.has_next_credential:
        earlier = exchange.candidates[: exchange.attempts.position]
        later = (other for other in others if other is target or other.key != first.key)
        exchange.attempts.targets = (*earlier, first, *later)


def _can_serve(target: Target, exchange: Exchange, gateway: Gateway) -> bool:
    return target not in exchange.limits.full_candidates and not gateway.rests.holds_back(target)
