"""The state of cache, estimate and limits at the decision about a request, for its log entry."""

from gateway_project.errors import ActiveUseLimitReached, LimitError
from gateway_project.work.cache.scopes import scope_at
from gateway_project.work.cache.verdict import verdict_of
from gateway_project.work.exchange import Exchange
from gateway_project.work.limits import active_uses
from gateway_project.work.limits.kinds import LimitDescription


def logged_decision(exchange: Exchange) -> list[object] | None:
    """The values of a LoggedDecision; None for a request of nobody that is known."""
    if exchange.identity.caller is None:
        return None
    demand, records = exchange.limits.demand, exchange.limits.records
    estimate = (None, None) if demand is None else (demand.input, demand.output)
    readings = None if records is None else list(records.values())
    decision = [verdict_of(exchange), _scope(exchange), *estimate, readings]
    return [*decision, _refusing(exchange.error)] if isinstance(exchange.error, LimitError) else decision


def _refusing(error: LimitError) -> str:
    """The name of the check that refused."""
    if isinstance(error, ActiveUseLimitReached):
        return active_uses.NAME
    return error.limit.check_name if isinstance(error.limit, LimitDescription) else ""


def _scope(exchange: Exchange) -> str | None:
    target = exchange.target or next(iter(exchange.remaining), None)
    if not exchange.cache.key or exchange.request is None or target is None:
        return None
    return scope_at(exchange.request, target.provider)
