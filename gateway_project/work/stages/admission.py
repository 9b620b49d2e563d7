"""Limits: checked and taken from in the round trip that looks for a cached answer; settled when the request ends."""

import math
from collections.abc import Sequence
from time import time

from gateway_project.errors import LimitError
from gateway_project.work.billing import bill_of
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.checks import (
    COUNT,
    LEASE,
    MAX_AMOUNT,
    NOTHING_HELD,
    RESERVE,
    Admission,
    CheckStatus,
    Hold,
    LimitCheck,
    Settlement,
    window_begin,
)
from gateway_project.work.limits.demand import Demand, estimate_demand, with_reservations
from gateway_project.work.limits.kinds import NANO, TOKENS
from gateway_project.work.limits.messages import limit_error
from gateway_project.work.log.entry import write_start
from gateway_project.work.snapshot.records import Target
from gateway_project.work.tasks import licence_uses

Checks = Sequence[LimitCheck]


def admit(
    exchange: Exchange,
    gateway: Gateway,
    key: str = "",
    token: str = "",
    *,
    read: bool = False,
    calls_provider: bool = True,
) -> Admission:
    """Count the limits, read the cache (if `read`) and claim the flight in one round trip.

    `calls_provider`: one will be called if there is no cached answer. Raises RateLimited, QuotaExceeded and
    ActiveUseLimitReached; then nothing was counted.
    """
    checks = _checks(exchange, gateway, calls_provider=calls_provider)
    limits_providers = gateway.snapshot.limits.has_provider_limits and exchange.admitted_target is None
    candidate_checks = _candidate_checks(exchange, gateway) if calls_provider and limits_providers else ()
    if not checks and not candidate_checks and not key:
        exchange.limit_statuses = exchange.limit_statuses or []
        return Admission([])
    if calls_provider and not token:
        token = exchange.token or gateway.flights.token()
    admission = _admit_or_wait(exchange, gateway, checks, key, token, read=read, candidate_checks=candidate_checks)
    if candidate_checks and (admission.leads or not key):  # otherwise nothing was taken from a provider's limits
        exchange.full_candidates += exchange.remaining[: admission.choice]
        exchange.admitted_target = exchange.remaining[admission.choice]
    return admission


def admit_to_provider(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Take from the limits of the provider to be called, unless that was done when the request was admitted.

    Raises RateLimited and QuotaExceeded if they have no room.
    """
    if not gateway.snapshot.limits.has_provider_limits or target is exchange.admitted_target:
        return
    if (settlement := provider_settlement(exchange, gateway)).holds:
        gateway.state.settle(settlement)
    if checks := gateway.snapshot.limits.for_provider(target.provider).checks:
        reserved = with_reservations(checks, _demand(exchange), (target,), gateway.snapshot)
        token = exchange.token or gateway.flights.token()
        _admit_or_wait(exchange, gateway, (), "", token, read=False, candidate_checks=[reserved])
    exchange.admitted_target = target


def provider_settlement(exchange: Exchange, gateway: Gateway) -> Settlement:
    """The settlement that gives back what was taken of the provider's limits, because another one will be called.

    The count of requests stays taken: the provider was called. It is settled when the request ends, as in the log.
    """
    exchange.admitted_target = None
    exchange.limit_statuses = without_provider_limits(exchange.limit_statuses)
    holds = [hold for hold in exchange.holds if _is_of_provider(hold) and hold.check.kind != COUNT]
    return _settlement(exchange, gateway, holds) if holds else NOTHING_HELD


def release_reservations(exchange: Exchange, gateway: Gateway) -> None:
    """Give back the caller's reservations while the request waits for another one's answer."""
    holds = [hold for hold in exchange.holds if hold.check.kind == RESERVE and not _is_of_provider(hold)]
    if holds:
        exchange.holds = [hold for hold in exchange.holds if hold not in holds]
        gateway.state.settle(Settlement(exchange.token, holds, [0] * len(holds), math.inf))


def final_settlement(exchange: Exchange, gateway: Gateway) -> Settlement:
    """The settlement of all that the request holds, with what it used; the caller sends it to the shared state."""
    exchange.holds += _late_holds(exchange, gateway)
    if not exchange.holds:
        return NOTHING_HELD
    if exchange.duration_ms is None:
        exchange.duration_ms = round(exchange.elapsed_ms(), 3)
    ended = gateway.state.clock.from_local(exchange.started_at + exchange.duration_ms / 1000)
    return _settlement(exchange, gateway, exchange.holds, ended)


def settle(exchange: Exchange, gateway: Gateway) -> None:
    """Settle what is not settled yet."""
    settlement = final_settlement(exchange, gateway)
    if settlement.holds:
        gateway.state.settle(settlement)


def _checks(exchange: Exchange, gateway: Gateway, *, calls_provider: bool) -> Checks:
    """The caller's checks that have not been taken from yet: all at first, later only those that can be given back."""
    limits = exchange.limits
    checks: Checks = limits.checks
    if exchange.candidates:  # a request that was denied before takes no active use
        assert exchange.caller is not None
        checks = (*checks, licence_uses.check_of(exchange.caller, gateway.snapshot))
    if exchange.limit_statuses is not None:
        hold_names = {hold.check.name for hold in exchange.holds}
        checks = [check for check in checks if check.kind != COUNT and check.name not in hold_names]
    if not calls_provider or not limits.reserves:
        return checks
    return with_reservations(checks, _demand(exchange), exchange.candidates, gateway.snapshot)


def _candidate_checks(exchange: Exchange, gateway: Gateway) -> Sequence[Checks]:
    """The checks of each remaining candidate, up to the first without any, which always has room."""
    candidate_checks: list[Checks] = []
    for target in exchange.remaining:
        checks = gateway.snapshot.limits.for_provider(target.provider).checks
        candidate_checks.append(with_reservations(checks, _demand(exchange), (target,), gateway.snapshot))
        if not checks:
            break
    return candidate_checks if candidate_checks[0] else ()


def _demand(exchange: Exchange) -> Demand:
    if exchange.demand is None:
        assert exchange.request is not None
        exchange.demand = estimate_demand(exchange.request)
    return exchange.demand


def _admit_or_wait(
    exchange: Exchange,
    gateway: Gateway,
    checks: Checks,
    key: str,
    token: str,
    *,
    read: bool,
    candidate_checks: Sequence[Checks],
) -> Admission:
    admission = gateway.state.admit(checks, key, token, read=read, candidate_checks=candidate_checks)
    ignore_lost = False
    while admission.lost:
        write_start(exchange, gateway, calls_provider=False)
        ignore_lost = ignore_lost or not gateway.recounter.wait(admission.lost, exchange.call)
        admission = gateway.state.admit(
            checks, key, token, read=read, candidate_checks=candidate_checks, ignore_lost=ignore_lost
        )
    exchange.token = token
    exchange.holds += admission.holds
    for full in admission.full:
        gateway.full_providers.note(full)
    if admission.refused is not None:
        exchange.limit_statuses = _updated(exchange.limit_statuses, _updated(admission.statuses, [admission.refused]))
        raise limit_error(admission.refused, time(), gateway.snapshot.prices.currency)
    exchange.limit_statuses = _updated(exchange.limit_statuses, admission.statuses)
    return admission


def without_provider_limits(statuses: list[CheckStatus] | None) -> list[CheckStatus] | None:
    """The statuses without those of provider limits: that provider is not called after all."""
    return statuses and [status for status in statuses if not _is_of_provider(status)]


def _updated(statuses: list[CheckStatus] | None, newer: list[CheckStatus]) -> list[CheckStatus]:
    if not statuses:
        return newer
    names = {status.check.name for status in newer}
    return [status for status in statuses if status.check.name not in names] + newer


def _is_of_provider(item: Hold | CheckStatus) -> bool:
    return item.check.limit.subject.kind == "provider"


def _late_holds(exchange: Exchange, gateway: Gateway) -> list[Hold]:
    """Holds of quotas that were set while the request was under way: it counts in them too."""
    book, before = gateway.snapshot.limits, exchange.limit_book
    if before is None or book is before or isinstance(exchange.error, LimitError):
        return []
    exchange.limit_book, caller = book, exchange.caller
    assert caller is not None
    checks, earlier_checks = book.for_caller(exchange.key, caller).checks, exchange.limits.checks
    for provider in (
        target.provider for target in exchange.candidates if target.provider.id in exchange.asked_provider_ids
    ):
        checks = checks + book.for_provider(provider).checks
        earlier_checks = earlier_checks + before.for_provider(provider).checks
    names = {check.name for check in earlier_checks} | {hold.check.name for hold in exchange.holds}
    began = gateway.state.clock.from_local(exchange.started_at)
    late = [check for check in checks if check.since and check.name not in names]
    return [Hold(check, 0, window_begin(check.window_seconds, began)) for check in late]


def _settlement(exchange: Exchange, gateway: Gateway, holds: list[Hold], ended: float = math.inf) -> Settlement:
    amounts = [_amount(hold, exchange, gateway) for hold in holds]
    exchange.holds = [hold for hold in exchange.holds if hold not in holds]
    for hold, amount in zip(holds, amounts, strict=True):
        if hold.check.kind == RESERVE:
            _add_freed(exchange, hold, hold.take - amount)
        elif hold.check.kind == LEASE:
            _add_freed(exchange, hold, 1)
    return Settlement(exchange.token, holds, amounts, ended)


def _amount(hold: Hold, exchange: Exchange, gateway: Gateway) -> int:
    """What the request used of what this hold is for; nothing for a provider whose answer was not served."""
    check, limit = hold.check, hold.check.limit
    if check.kind != RESERVE:
        return 1 if hold.is_late else hold.take
    if exchange.is_from_others:  # found after another candidate had failed: no provider worked for it
        return 0
    if limit.subject.kind == "provider" and limit.subject.id != exchange.billed_provider_id:
        return 0
    bill = bill_of(exchange, gateway.snapshot)
    if limit.measure == TOKENS:
        return min(bill.usage.all_input + (bill.usage.output or 0), MAX_AMOUNT) if bill.usage else 0
    cost = bill.cost
    return min(round(cost.amount * NANO), MAX_AMOUNT) if cost is not None and cost.amount is not None else 0


def _add_freed(exchange: Exchange, hold: Hold, freed: int) -> None:
    """Add what was given back to what remains of the limit."""
    statuses = exchange.limit_statuses or []
    for place, (check, remaining, reset) in enumerate(statuses):
        if check.name == hold.check.name:
            statuses[place] = CheckStatus(check, remaining + freed, reset)
