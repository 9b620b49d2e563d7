"""Settlement: the reservations of a request are given back, or replaced by its usage."""

import math
from collections.abc import Collection, Sequence

from gateway_project.errors import LimitError
from gateway_project.work.bill import Bill
from gateway_project.work.billing import bill_of
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.checks import (
    COUNT,
    LEASE,
    MAX_AMOUNT,
    NOTHING_HELD,
    RESERVE,
    CheckStatus,
    Hold,
    Settlement,
    window_begin,
)
from gateway_project.work.limits.kinds import (
    COUNT_UNPRICED,
    CREDENTIAL,
    NANO,
    PROVIDER,
    TOKENS,
    Subject,
    unpriced_units,
)
from gateway_project.work.snapshot.records import ProviderSnapshot


def settle_reservations(exchange: Exchange, gateway: Gateway) -> None:
    """Settle all reservations that are not settled yet."""
    settlement = final_settlement(exchange, gateway)
    if settlement.holds:
        gateway.state.settle(settlement)


def final_settlement(exchange: Exchange, gateway: Gateway) -> Settlement:
    """The settlement of all reservations of the request with its usage; the caller sends it to the shared state."""
    limits = exchange.limits
    if late_holds := _late_holds(exchange, gateway):
        limits.holds = [*limits.holds, *late_holds]
    if not limits.holds:
        return NOTHING_HELD
    if limits.duration_ms is None:
        limits.duration_ms = round(exchange.elapsed_ms(), 3)
    ended = gateway.state.clock.from_local(exchange.started_at + limits.duration_ms / 1000)
    return _settlement(exchange, gateway, limits.holds, ended)


def uncount_request(exchange: Exchange, gateway: Gateway) -> None:
    """Take the request out of the caller's counts again: the log has no request for it."""
    limits = exchange.limits
    at, limits.counted_at = limits.counted_at, None
    checks = [check for check in limits.own.checks if check.kind == COUNT] if at is not None else []
    if at is not None and checks:
        holds = [Hold(check, check.take, window_begin(check.window_seconds, at), at) for check in checks]
        gateway.state.settle(Settlement(limits.token, holds, [0] * len(holds)))


def settle_provider(exchange: Exchange, gateway: Gateway) -> None:
    """Give back what was taken of a provider's limits, because another provider will be called."""
    if (settlement := provider_settlement(exchange, gateway)).holds:
        gateway.state.settle(settlement)


def provider_settlement(exchange: Exchange, gateway: Gateway) -> Settlement:
    """The settlement that gives back what was taken of the provider's limits, because another one will be called.

    The count of requests stays taken until the request ends: then it is known, as in the log, who was called.
    """
    exchange.limits.admitted_target = None
    drop_provider_statuses(exchange)
    holds = [hold for hold in exchange.limits.holds if _is_of_provider(hold) and hold.check.kind != COUNT]
    return _settlement(exchange, gateway, holds) if holds else NOTHING_HELD


def pass_on_to_next_credential(exchange: Exchange) -> None:
    """Leave what was taken of the provider's limits to the next candidate, which is the same provider.

    With limits of its own for a credential all is given back and taken again, when the next one is asked.
    """
    limits = exchange.limits
    if limits.admitted_target is exchange.remaining[0]:
        is_shared = all(hold.check.limit.subject.kind != CREDENTIAL for hold in limits.holds)
        limits.admitted_target = exchange.remaining[1] if is_shared else None


def release_reservations(exchange: Exchange, gateway: Gateway) -> None:
    """Give back the caller's reservations while the request waits for another one's answer."""
    limits = exchange.limits
    holds = [hold for hold in limits.holds if hold.check.kind == RESERVE and not _is_of_provider(hold)]
    if holds:
        limits.holds = [hold for hold in limits.holds if hold not in holds]
        gateway.state.settle(Settlement(limits.token, holds, [0] * len(holds), math.inf))


def drop_provider_statuses(exchange: Exchange) -> None:
    """Show the client nothing of a provider's limits: that provider is not called after all."""
    statuses = exchange.limits.statuses
    exchange.limits.statuses = statuses and [status for status in statuses if not _is_of_provider(status)]


def _is_of_provider(item: Hold | CheckStatus) -> bool:
    return item.check.limit.subject.is_upstream


def _late_holds(exchange: Exchange, gateway: Gateway) -> list[Hold]:
    """Holds of quotas that were set while the request was under way: it counts in them too."""
    book, before = gateway.snapshot.limits, exchange.limits.book
    if before is None or book is before or isinstance(exchange.error, LimitError):
        return []
    exchange.limits.book, caller = book, exchange.identity.caller
    assert caller is not None
    checks, earlier_checks = book.for_caller(exchange.identity.key, caller).checks, exchange.limits.own.checks
    for provider in _providers_asked(exchange):
        checks = checks + book.for_provider(provider).checks
        earlier_checks = earlier_checks + before.for_provider(provider).checks
    names = {check.name for check in earlier_checks} | {hold.check.name for hold in exchange.limits.holds}
    began = gateway.state.clock.from_local(exchange.started_at)
    late = [check for check in checks if check.since and check.name not in names]
    return [Hold(check, 0, window_begin(check.window_seconds, began)) for check in late]


def _providers_asked(exchange: Exchange) -> Collection[ProviderSnapshot]:
    """The providers that were sent the request, each once, whatever its credentials."""
    providers = {target.provider.id: target.provider for target in exchange.candidates}
    return [provider for number, provider in providers.items() if number in exchange.attempts.provider_ids]


def _settlement(exchange: Exchange, gateway: Gateway, holds: Sequence[Hold], ended: float = math.inf) -> Settlement:
    limits, amounts = exchange.limits, [_amount(hold, exchange, gateway) for hold in holds]
    limits.holds = () if holds is limits.holds else [hold for hold in limits.holds if hold not in holds]
    for hold, amount in zip(holds, amounts, strict=True):
        if hold.check.kind == RESERVE:
            _add_freed(exchange, hold, hold.take - amount)
        elif hold.check.kind == LEASE:
            _add_freed(exchange, hold, 1)
    return Settlement(limits.token, holds, amounts, ended)


def _amount(hold: Hold, exchange: Exchange, gateway: Gateway) -> int:
    """The request's use of the measure of this hold; 0 for a provider whose answer was not served."""
    check, limit = hold.check, hold.check.limit
    if check.kind != RESERVE:
        was_called = limit.subject.kind != PROVIDER or limit.subject.id in exchange.attempts.provider_ids
        return (1 if hold.is_late else hold.take) if was_called else 0
    if exchange.is_from_others:  # it was found after a candidate had failed: no provider has worked for it
        return 0
    if limit.subject.is_upstream and limit.subject not in _billed_subjects(exchange):
        return 0
    bill = bill_of(exchange, gateway.snapshot)
    if limit.measure == TOKENS:
        return min(_tokens(bill), MAX_AMOUNT)
    if bill.cost is None:
        return 0
    if bill.cost.amount is not None:
        return min(round(bill.cost.amount * NANO), MAX_AMOUNT)
    return min(unpriced_units(_tokens(bill), limit), MAX_AMOUNT) if limit.unpriced == COUNT_UNPRICED else 0


def _billed_subjects(exchange: Exchange) -> tuple[Subject, ...]:
    """The provider and the credential whose work is billed."""
    account = exchange.billed_account
    return (Subject(PROVIDER, account[0]), Subject(CREDENTIAL, account[1])) if account is not None else ()


def _tokens(bill: Bill) -> int:
    return bill.usage.all_input + (bill.usage.output or 0) if bill.usage else 0


def _add_freed(exchange: Exchange, hold: Hold, freed: int) -> None:
    """Add what was given back to what remains of the limit."""
    statuses = exchange.limits.statuses or []
    for place, (check, remaining, reset) in enumerate(statuses):
        if check.name == hold.check.name:
            statuses[place] = CheckStatus(check, remaining + freed, reset)
