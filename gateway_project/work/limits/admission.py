"""Admission: a request is checked against its limits and takes from them, in the round trip that reads the cache."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from time import time

from gateway_project.errors import GatewayError, ValidationError
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits import active_uses
from gateway_project.work.limits.checks import COUNT, Admission, CheckStatus, LimitCheck
from gateway_project.work.limits.demand import (
    Demand,
    estimate_demand,
    largest_demand,
    misspelled_parameter,
    with_reservations,
)
from gateway_project.work.limits.kinds import LimitDescription
from gateway_project.work.limits.messages import limit_error, unpriced_error
from gateway_project.work.limits.records import record_limits
from gateway_project.work.limits.settlement import settle_provider
from gateway_project.work.log.entry import write_start
from gateway_project.work.snapshot.records import Target
from providers.formats.dialect import COUNT_TOKENS, WorkRequest
from rules.aliases.models import FallbackCause

Checks = Sequence[LimitCheck]
BACKGROUND_REFUSED = (
    "background is not possible under a limit of tokens or cost, because the use of such a response cannot be "
    "counted. Send the request without background."
)


def admit_and_look_up(exchange: Exchange, gateway: Gateway) -> None:
    """Admit the request for its next candidate, and leave the Admission in the exchange.

    Where a cached answer will do, the same round trip looks for it, and claims the flight if one may be called.
    Raises RateLimited, QuotaExceeded and ActiveUseLimitReached; then nothing was counted.
    """
    cache_control = exchange.options.cache_control
    key = exchange.cache.key if cache_control != "refresh" else ""
    admit_request(exchange, gateway, key, calls_provider=cache_control != "only")


def admit_request(
    exchange: Exchange, gateway: Gateway, key: str = "", token: str = "", *, calls_provider: bool = True
) -> Admission:
    """Count the limits and, with a cache key, read the cache and claim the flight, in one round trip.

    `calls_provider`: one will be called if there is no cached answer. Raises RateLimited, QuotaExceeded and
    ActiveUseLimitReached; then nothing was counted.
    """
    limits, checks = exchange.limits, _checks(exchange, gateway, calls_provider=calls_provider)
    candidate_checks: Sequence[Checks] = ()
    if calls_provider:
        token = token or limits.token or gateway.flights.token()
        if gateway.snapshot.limits.has_provider_limits and limits.admitted_target is None:
            candidate_checks = _candidate_checks(exchange, gateway)
    if not checks and not candidate_checks and not key:
        limits.statuses, limits.records = limits.statuses or [], limits.records or {}
        limits.admission = Admission([])
        return limits.admission
    admission = _admit_or_wait(exchange, gateway, checks, key, token, candidate_checks)
    if candidate_checks and (admission.leads or not key):  # otherwise nothing was taken from a provider's limits
        limits.full_candidates += exchange.remaining[: admission.choice]
        limits.admitted_target = exchange.remaining[admission.choice]
    limits.admission = admission
    return admission


def admit_to_provider(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Take from the limits of the provider to be called, unless that was done when the request was admitted.

    Raises RateLimited and QuotaExceeded if they have no room.
    """
    limits = exchange.limits
    if not gateway.snapshot.limits.has_provider_limits or target is limits.admitted_target:
        return
    settle_provider(exchange, gateway)
    hold_names = {hold.check.name for hold in limits.holds}  # a provider's count of requests, with another credential
    checks = gateway.snapshot.limits.for_provider(target.provider).checks
    if checks := tuple(check for check in checks if check.name not in hold_names):
        reservation = _reserve_at_targets(checks, (target,), exchange, gateway)
        token = limits.token or gateway.flights.token()
        _admit_or_wait(exchange, gateway, (), "", token, [reservation])
    limits.admitted_target = target


def count_request(exchange: Exchange, gateway: Gateway) -> None:
    """Count a request before the stage of limits: it failed, or is costly to search. Raises as admit_request() does."""
    if exchange.identity.caller is not None and exchange.limits.statuses is None:
        _set_own_limits(exchange, gateway)
        if exchange.limits.own.checks:
            admit_request(exchange, gateway, calls_provider=False)


def accountable_targets(targets: list[Target], exchange: Exchange, gateway: Gateway) -> list[Target]:
    """Those whose cost the limits in force can count; all of them if there is none."""
    request = exchange.request
    assert request is not None
    if request.operation == COUNT_TOKENS or not _has_reservations(exchange, gateway):
        return targets
    return [target for target in targets if not _unpriced_refusal(target, exchange, gateway)] or targets


def exclude_unaccountable(exchange: Exchange, gateway: Gateway) -> None:
    """Refuse what the limits in force could not count: background work, and models without a price.

    Candidates without a price are passed over while others can serve. Raises ValidationError and QuotaExceeded.
    """
    limits, request = exchange.limits, exchange.request
    assert request is not None
    if not _has_reservations(exchange, gateway) or request.operation == COUNT_TOKENS:
        return
    if any(_is_reserved(target, exchange, gateway) for target in exchange.candidates):
        _refuse_uncountable(request)
    for target in exchange.candidates:
        if (refusal := _unpriced_refusal(target, exchange, gateway)) is not None:
            limits.full_candidates += (target,)
            limits.refusal = refusal
    if limits.refusal is not None and len(limits.full_candidates) == len(exchange.candidates):
        raise limits.refusal


def _has_reservations(exchange: Exchange, gateway: Gateway) -> bool:
    """Whether limits of tokens or cost may apply to the request."""
    if exchange.limits.book is None:
        _set_own_limits(exchange, gateway)
    return exchange.limits.own.reserves or gateway.snapshot.limits.has_provider_limits


def _unpriced_refusal(target: Target, exchange: Exchange, gateway: Gateway) -> GatewayError | None:
    """The error of a limit that refuses work without a price, if this target has none."""
    provider_limits = gateway.snapshot.limits.for_provider(target.provider)
    refusing = exchange.limits.own.refusing_unpriced or provider_limits.refusing_unpriced
    if not refusing or gateway.snapshot.price(target, time()) is not None:
        return None
    return unpriced_error(refusing[0].limit, target.provider.name, target.model)


def refuse_unaccountable(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Refuse what one provider's limits could not count: a copy. Raises ValidationError and QuotaExceeded."""
    request, limits = exchange.request, gateway.snapshot.limits.for_provider(target.provider)
    assert request is not None
    if limits.reserves:
        _refuse_uncountable(request)
    if limits.refusing_unpriced and gateway.snapshot.price(target, time()) is None:
        raise unpriced_error(limits.refusing_unpriced[0].limit, target.provider.name, target.model)


def _refuse_uncountable(request: WorkRequest) -> None:
    """Raise ValidationError for what can use more than is counted, under a limit of tokens or cost."""
    if request.runs_in_background:
        raise ValidationError(BACKGROUND_REFUSED, field="background")
    if name := misspelled_parameter(request.body):
        # Some servers, such as those written in Go, take it for the parameter.
        text = f"Write {name.casefold()} instead of {name}: limits of tokens and cost read this parameter."
        raise ValidationError(text, field=name)


def _is_reserved(target: Target, exchange: Exchange, gateway: Gateway) -> bool:
    """Whether a request to this provider is under a limit of tokens or cost."""
    return exchange.limits.own.reserves or gateway.snapshot.limits.for_provider(target.provider).reserves


def _set_own_limits(exchange: Exchange, gateway: Gateway) -> None:
    identity, limits, book = exchange.identity, exchange.limits, gateway.snapshot.limits
    assert identity.caller is not None
    limits.book, limits.own = book, book.for_caller(identity.key, identity.caller)


def _checks(exchange: Exchange, gateway: Gateway, *, calls_provider: bool) -> Checks:
    """The caller's checks that have not been taken from yet: all at first, later only those that can be given back."""
    limits, caller = exchange.limits, exchange.identity.caller
    checks: Checks = limits.own.checks
    if exchange.candidates:  # a request that was denied before takes no active use
        assert caller is not None
        checks = limits.own.with_use(active_uses.check_of(caller, gateway.snapshot))
    if limits.statuses is not None:
        hold_names = {hold.check.name for hold in limits.holds}
        checks = [check for check in checks if check.kind != COUNT and check.name not in hold_names]
    if not calls_provider or not limits.own.reserves:
        return checks
    return _reserve_at_targets(checks, exchange.candidates, exchange, gateway)


def _candidate_checks(exchange: Exchange, gateway: Gateway) -> Sequence[Checks]:
    """The checks of each remaining candidate, up to the first without any, which always has room."""
    candidate_checks: list[Checks] = []
    # Without this cause a full provider is no reason to ask another one, but a full credential is one to try the next.
    may_choose, first = FallbackCause.BUDGET in exchange.fallback_on, exchange.remaining[0]
    for target in takewhile(lambda one: may_choose or one.key == first.key, exchange.remaining):
        checks = gateway.snapshot.limits.for_provider(target.provider).checks
        reservation = _reserve_at_targets(checks, (target,), exchange, gateway)
        candidate_checks.append(reservation)
        if not checks:
            break
    return candidate_checks if candidate_checks[0] else ()


def _reserve_at_targets(checks: Checks, targets: Sequence[Target], exchange: Exchange, gateway: Gateway) -> Checks:
    find_largest = partial(_find_largest, exchange, targets)
    return with_reservations(checks, _demand(exchange), targets, gateway.snapshot, find_largest)


def _find_largest(exchange: Exchange, targets: Sequence[Target], limit: LimitDescription) -> Demand:
    """The most that the request may use at these targets; the exchange keeps the most of all."""
    limits = exchange.limits
    assert exchange.request is not None
    largest = largest_demand(exchange.request, targets, limit)
    if limits.largest is None or largest.total > limits.largest.total:
        limits.largest = largest
    return largest


def _demand(exchange: Exchange) -> Demand:
    if exchange.limits.demand is None:
        assert exchange.request is not None
        exchange.limits.demand = estimate_demand(exchange.request)
    return exchange.limits.demand


def _admit_or_wait(
    exchange: Exchange,
    gateway: Gateway,
    checks: Checks,
    key: str,
    token: str,
    candidate_checks: Sequence[Checks],
) -> Admission:
    read = key != ""
    admission = gateway.state.admit(checks, key, token, read=read, candidate_checks=candidate_checks)
    if admission.lost:
        admit_with = partial(gateway.state.admit, checks, key, token, read=read, candidate_checks=candidate_checks)
        admission = _recount(exchange, gateway, admission, admit_with)
    limits = exchange.limits
    limits.token = token
    if admission.holds:
        limits.holds = [*limits.holds, *admission.holds]
    record_limits(limits, admission)
    for full in admission.full:
        gateway.full_providers.note(full)
    if admission.refused is not None:
        limits.statuses = _update_statuses(limits.statuses, _update_statuses(admission.statuses, [admission.refused]))
        raise limit_error(admission.refused, time(), gateway.snapshot.prices.currency)
    if limits.statuses is None:
        limits.counted_at, limits.statuses = admission.at, admission.statuses
    else:
        limits.statuses = _update_statuses(limits.statuses, admission.statuses)
    return admission


def _recount(
    exchange: Exchange, gateway: Gateway, admission: Admission, admit_with: Callable[..., Admission]
) -> Admission:
    """Admit the request once its lost counts have been rebuilt, or without them."""
    ignore_lost = False
    while admission.lost:
        if all(count.is_small for count in admission.lost):
            gateway.recounter.request(admission.lost)
            admission = admit_with(accept_lost=True)
        else:
            write_start(exchange, gateway, calls_provider=False)
            ignore_lost = ignore_lost or not gateway.recounter.wait(admission.lost, exchange.call)
            admission = admit_with(ignore_lost=ignore_lost)
    return admission


def _update_statuses(statuses: list[CheckStatus] | None, newer: list[CheckStatus]) -> list[CheckStatus]:
    if not statuses:
        return newer
    names = {status.check.name for status in newer}
    return [status for status in statuses if status.check.name not in names] + newer
