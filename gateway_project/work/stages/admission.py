"""The limits: all are asked, and taken from, in the round trip that looks for a stored answer; the end settles them."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from gateway_project.errors import ActiveUseLimitReached, LimitError, QuotaExceeded, RateLimited
from gateway_project.work import licence_uses
from gateway_project.work.bill import bill_of
from gateway_project.work.demand import demand_of, reserving
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limit_book import CONCURRENT, NANO, TOKENS
from gateway_project.work.limits import (
    COUNT,
    LEASE,
    MAX_AMOUNT,
    MINUTE,
    NOTHING_HELD,
    RESERVE,
    USE,
    Admission,
    CheckStatus,
    Hold,
    LimitCheck,
    Settlement,
    window_begin,
)
from gateway_project.work.snapshot import Target
from gateway_project.work.stages.log import write_start

Checks = Sequence[LimitCheck]


def admit(
    exchange: Exchange, gateway: Gateway, key: str = "", token: str = "", *, reads: bool = False, asks: bool = True
) -> Admission:
    """One round trip: the limits counted, the cache read, the flight claimed.

    `asks` says that a provider is called if no stored answer is found. Raises RateLimited, QuotaExceeded and
    ActiveUseLimitReached; then nothing was counted.
    """
    checks = _checks(exchange, gateway, asks=asks)
    limits_providers = gateway.snapshot.limits.of_providers and exchange.admitted is None
    candidate_checks = _choices(exchange, gateway) if asks and limits_providers else ()
    if not checks and not candidate_checks and not key:
        exchange.limit_statuses = exchange.limit_statuses or []
        return Admission([])
    if asks and not token:
        token = exchange.token or gateway.flights.token()
    admission = _ask(exchange, gateway, checks, key, token, reads=reads, candidate_checks=candidate_checks)
    if candidate_checks and (admission.leads or not key):  # who waits, or has found an answer, has taken from none
        exchange.passed_over += exchange.left[: admission.choice]
        exchange.admitted = exchange.left[admission.choice]
    return admission


def admit_to(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Take from the limits of the provider that is asked next, unless that was done when the request was admitted.

    Raises RateLimited and QuotaExceeded where it has no room.
    """
    if not gateway.snapshot.limits.of_providers or target is exchange.admitted:
        return
    if (given_back := let_go(exchange, gateway)).holds:
        gateway.state.settle(given_back)
    if checks := gateway.snapshot.limits.of_provider(target.provider).checks:
        choice = reserving(checks, _demand(exchange), (target,), gateway.snapshot)
        _ask(
            exchange, gateway, (), "", exchange.token or gateway.flights.token(), reads=False, candidate_checks=[choice]
        )
    exchange.admitted = target


def let_go(exchange: Exchange, gateway: Gateway) -> Settlement:
    """What the request has taken of its provider's limits, to be given back: another one is asked.

    That this one was asked stays counted, and is settled with the request's end, of which the log knows.
    """
    exchange.admitted = None
    exchange.limit_statuses = of_caller(exchange.limit_statuses)
    holds = [hold for hold in exchange.holds if _is_of_provider(hold) and hold.check.kind != COUNT]
    return _settlement(exchange, gateway, holds) if holds else NOTHING_HELD


def hold_back(exchange: Exchange, gateway: Gateway) -> None:
    """Who waits for another's answer reserves nothing of the caller's limits, also after a candidate has failed."""
    holds = [hold for hold in exchange.holds if hold.check.kind == RESERVE and not _is_of_provider(hold)]
    if holds:
        exchange.holds = [hold for hold in exchange.holds if hold not in holds]
        gateway.state.settle(Settlement(exchange.token, holds, [0] * len(holds), math.inf))


def settlement_of(exchange: Exchange, gateway: Gateway) -> Settlement:
    """What the request held, for the one round trip that tells the shared state what it came to; empty after that."""
    exchange.holds += _late_holds(exchange, gateway)
    if not exchange.holds:
        return NOTHING_HELD
    if exchange.duration_ms is None:
        exchange.duration_ms = round(exchange.elapsed_ms(), 3)
    ended = gateway.state.clock.from_local(exchange.started_at + exchange.duration_ms / 1000)
    return _settlement(exchange, gateway, exchange.holds, ended)


def settle(exchange: Exchange, gateway: Gateway) -> None:
    """Give back and count what is not settled yet."""
    settlement = settlement_of(exchange, gateway)
    if settlement.holds:
        gateway.state.settle(settlement)


def refusal(refused: CheckStatus) -> LimitError:
    """The error for a limit that is used up: which, whose, and when it is whole again."""
    check, _, seconds = refused
    if check.kind == USE:
        return ActiveUseLimitReached(
            f"All {check.amount} active uses of the licence are taken; one may be free in {seconds} s.",
            retry_after=seconds,
        )
    error = RateLimited if check.window_seconds in (0, MINUTE) else QuotaExceeded
    return error(_told(check, seconds), retry_after=seconds, permanent=_never_fits(check))


def _never_fits(check: LimitCheck) -> bool:
    return check.kind == RESERVE and check.minimum > check.amount


def _told(check: LimitCheck, seconds: int) -> str:
    limit = check.limit
    amount = f"{limit.told(check.amount)} of {limit.whose}"
    if _never_fits(check):
        return (
            f"The request may come to {limit.quantity(check.minimum)}, more than the limit of {amount}; "
            "ask for a shorter answer (max_tokens), or send less."
        )
    if limit.measure == CONCURRENT:
        return f"The limit of {amount} is reached; try again when one of them has ended."
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    room = f" for a request of up to {limit.quantity(check.minimum)}" if check.kind == RESERVE else ""
    return f"The limit of {amount} has no room{room}; it is whole again in {seconds} s, at {at:%Y-%m-%dT%H:%M:%SZ}."


def _checks(exchange: Exchange, gateway: Gateway, *, asks: bool) -> Checks:
    """The caller's limits that have not been taken from yet: all at first, later what is reserved and held."""
    limits = exchange.limits
    checks: Checks = limits.checks
    if exchange.candidates:  # who is denied before is not at work
        checks = (*checks, licence_uses.check_of(exchange.caller, gateway.snapshot))
    if exchange.limit_statuses is not None:
        held = {hold.check.name for hold in exchange.holds}
        checks = [check for check in checks if check.kind != COUNT and check.name not in held]
    if not asks or not limits.reserves:
        return checks
    return reserving(checks, _demand(exchange), exchange.candidates, gateway.snapshot)


def _choices(exchange: Exchange, gateway: Gateway) -> Sequence[Checks]:
    """The limits of each candidate that is left, up to the first that has none and so has room always."""
    candidate_checks: list[Checks] = []
    for target in exchange.left:
        checks = gateway.snapshot.limits.of_provider(target.provider).checks
        candidate_checks.append(reserving(checks, _demand(exchange), (target,), gateway.snapshot))
        if not checks:
            break
    return candidate_checks if candidate_checks[0] else ()


def _demand(exchange: Exchange):
    if exchange.demand is None:
        exchange.demand = demand_of(exchange.request)
    return exchange.demand


def _ask(
    exchange: Exchange,
    gateway: Gateway,
    checks: Checks,
    key: str,
    token: str,
    *,
    reads: bool,
    candidate_checks: Sequence[Checks],
) -> Admission:
    admission, ignore_lost = (
        gateway.state.admit(checks, key, token, read=reads, candidate_checks=candidate_checks),
        False,
    )
    while admission.lost:
        write_start(exchange, gateway, asks=False)
        ignore_lost = ignore_lost or not gateway.recounter.wait(admission.lost, exchange.call)
        admission = gateway.state.admit(
            checks, key, token, read=reads, candidate_checks=candidate_checks, ignore_lost=ignore_lost
        )
    exchange.token = token
    exchange.holds += admission.holds
    for full in admission.full:
        gateway.full_providers.note(full)
    if admission.refused is not None:
        exchange.limit_statuses = _newest(exchange.limit_statuses, _newest(admission.statuses, [admission.refused]))
        raise refusal(admission.refused)
    exchange.limit_statuses = _newest(exchange.limit_statuses, admission.statuses)
    return admission


def of_caller(statuses: list[CheckStatus] | None) -> list[CheckStatus] | None:
    """Without the limits of a provider that is not asked after all."""
    return statuses and [status for status in statuses if not _is_of_provider(status)]


def _newest(known: list[CheckStatus] | None, told: list[CheckStatus]) -> list[CheckStatus]:
    if not known:
        return told
    names = {statuses.check.name for statuses in told}
    return [statuses for statuses in known if statuses.check.name not in names] + told


def _is_of_provider(held: Hold | CheckStatus) -> bool:
    limit = held.check.limit  # None for the use of a licence
    return limit is not None and limit.subject.kind == "provider"


def _late_holds(exchange: Exchange, gateway: Gateway) -> list[Hold]:
    """Those of quotas that were set while the request was under way: it has taken nothing of them, and counts too."""
    book, before = gateway.snapshot.limits, exchange.book
    if before is None or book is before or isinstance(exchange.error, LimitError):
        return []
    exchange.book = book
    checks, asked = book.of_caller(exchange.key, exchange.caller).checks, exchange.limits.checks
    for provider in (target.provider for target in exchange.candidates if target.provider.id in exchange.asked):
        checks, asked = checks + book.of_provider(provider).checks, asked + before.of_provider(provider).checks
    known = {check.name for check in asked} | {hold.check.name for hold in exchange.holds}
    began = gateway.state.clock.from_local(exchange.started_at)
    late = [check for check in checks if check.since and check.name not in known]
    return [Hold(check, 0, window_begin(check.window_seconds, began)) for check in late]


def _settlement(exchange: Exchange, gateway: Gateway, holds: list[Hold], ended: float = math.inf) -> Settlement:
    amounts = [_amount(hold, exchange, gateway) for hold in holds]
    exchange.holds = [hold for hold in exchange.holds if hold not in holds]
    for hold, amount in zip(holds, amounts, strict=True):
        if hold.check.kind == RESERVE:
            _stand_anew(exchange, hold, hold.take - amount)
        elif hold.check.kind == LEASE:
            _stand_anew(exchange, hold, 1)
    return Settlement(exchange.token, holds, amounts, ended)


def _amount(hold: Hold, exchange: Exchange, gateway: Gateway) -> int:
    """What the request came to, of what this was held for; a provider that did not serve it has done nothing."""
    check, limit = hold.check, hold.check.limit
    if check.kind != RESERVE:
        return 1 if hold.is_late else hold.take
    if exchange.stored is not None:  # found after another candidate had failed: nobody worked for it
        return 0
    if limit.subject.kind == "provider" and limit.subject.id != exchange.served_by:
        return 0
    bill = bill_of(exchange, gateway.snapshot)
    if limit.measure == TOKENS:
        return min(bill.usage.all_input + (bill.usage.output or 0), MAX_AMOUNT) if bill.usage else 0
    cost = bill.cost
    return min(round(cost.amount * NANO), MAX_AMOUNT) if cost is not None and cost.amount is not None else 0


def _stand_anew(exchange: Exchange, hold: Hold, freed: int) -> None:
    """What is left, now that the request has ended, and it is known what it used."""
    statuses = exchange.limit_statuses or []
    for place, (check, left, reset) in enumerate(statuses):
        if check.name == hold.check.name:
            statuses[place] = CheckStatus(check, left + freed, reset)
