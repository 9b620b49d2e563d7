"""The state of cache, estimate and limits at the decision about a request, for its log entry."""

from gateway_project.errors import ActiveUseLimitReached, LimitError
from gateway_project.work.cache.scopes import scope_at
from gateway_project.work.cache.verdict import verdict_of
from gateway_project.work.exchange import Exchange
from gateway_project.work.limits import active_uses
from gateway_project.work.limits.kinds import LimitDescription
from gateway_project.work.snapshot.records import Target


def logged_decision(exchange: Exchange, target: Target | None) -> list[object] | None:
    """The values of a LoggedDecision; None for a request of nobody that is known."""
    if exchange.identity.caller is None:
        return None
    limits, error = exchange.limits, exchange.error
    demand, records = limits.demand, limits.records
    decision: list[object] = [
        verdict_of(exchange),
        _scope(exchange, target),
        None if demand is None else demand.input,
        None if demand is None else demand.output,
        None if records is None else list(records.values()),
    ]
    if isinstance(error, LimitError):
        decision.append(_refusing_check(error))
    return decision


def _refusing_check(error: LimitError) -> str:
    """The name of the check that refused."""
    if isinstance(error, ActiveUseLimitReached):
        return active_uses.NAME
    return error.limit.check_name if isinstance(error.limit, LimitDescription) else ""


def _scope(exchange: Exchange, target: Target | None) -> str | None:
    request, target = exchange.request, target or next(iter(exchange.remaining), None)
    if not exchange.cache.key or request is None or target is None:
        return None
    return scope_at(request, target.provider)
