"""Failover: of several candidates the first that answers serves the request."""

import math
from collections.abc import Callable
from time import perf_counter

from gateway_project.errors import GatewayError, LimitError, ProviderOverloaded, UpstreamError, ValidationError
from gateway_project.work.cache.lookup import choose_key, look_up, take_leader_error
from gateway_project.work.cache.storing import end_candidate
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.attempts import note_answer, note_failure
from gateway_project.work.failover.causes import cause_of
from gateway_project.work.failover.context_length import keep_larger
from gateway_project.work.failover.hedging import ask_with_hedge
from gateway_project.work.failover.measuring import begin_measuring, measure_failure
from gateway_project.work.failover.outcomes import note_outcome
from gateway_project.work.failover.provider_call import call_provider, hide_credential
from gateway_project.work.failover.provider_response import read_response, refuse_filtered
from gateway_project.work.failover.rests import error_of_rest
from gateway_project.work.failover.retries import wait_for_retry
from gateway_project.work.failover.token_count import count_tokens
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.admission import admit_and_look_up, admit_to_provider
from gateway_project.work.limits.settlement import drop_provider_statuses, pass_on_to_next_credential
from gateway_project.work.snapshot.records import Target
from providers.health.rests import TOO_MANY_REQUESTS
from providers.transport.calls import End
from rules.aliases.models import FallbackCause
from telemetry.models import Candidate

Step = Callable[[Exchange, Gateway], None]


def call_candidates(exchange: Exchange, gateway: Gateway) -> None:
    """Ask one candidate after the other, until one has begun to answer. Raises the error to send if none does.

    Until then nothing has been sent to the client, so that it never sees two beginnings. A request for a token count
    is answered with an estimate where no provider can count. Raises FlightPending as look_up_cache() does; then this
    is called again.
    """
    count_tokens(exchange)
    gateway.retry_budget.note_request()
    if exchange.cache.wait is not None:
        _look_up_next(exchange, gateway, ("cache", look_up))
    # An answer may have come from the cache or another request, even that of a later candidate, or be an estimate.
    while not exchange.has_begun:
        target = exchange.remaining[0]
        if (error := take_leader_error(exchange)) is not None:
            exchange.attempts.failure = error
            note_outcome(exchange, target, Candidate.FAILED, error)
            _drop_smaller(exchange, error)
            _skip_credentials(exchange)
            if not exchange.falls_back_on(error):
                raise error
            _advance(exchange, gateway, error)
        else:
            gateway.watcher.add(exchange.call)
            error = _try_candidate(exchange, gateway, target)
            if exchange.has_begun:
                return
            _advance(exchange, gateway, error, target)


def _try_candidate(exchange: Exchange, gateway: Gateway, target: Target) -> UpstreamError | None:
    """Ask a candidate if it may be asked; returns its error if another one may serve, and raises all others."""
    if _is_resting(exchange, gateway, target) or _pauses_too(exchange, gateway, target):
        return None
    if not _may_be_asked(exchange, gateway, target):
        return None
    try:
        admit_to_provider(exchange, gateway, target)
        if gateway.rests.pause_of(target) is not None:
            exchange.attempts.has_asked_paused = True
        _ask_once_or_twice(exchange, gateway, target)
    except (LimitError, ValidationError) as unfit:  # its limit is reached, or its format cannot express it
        exchange.attempts.end_sending()
        exchange.attempts.failure = exchange.attempts.failure or unfit
        note_outcome(exchange, target, Candidate.FULL if isinstance(unfit, LimitError) else Candidate.UNFIT, unfit)
        if isinstance(unfit, LimitError) and not exchange.falls_back_on(unfit):
            raise exchange.attempts.failure from None
    except UpstreamError as error:
        exchange.attempts.failure = error
        # After the last one call.end is kept: a provider that ran out of time has read the request.
        if not exchange.falls_back_on(error):
            raise
        _drop_smaller(exchange, error)
        if len(exchange.remaining) == 1 or not exchange.call.prepare_retry():
            raise
        return error
    return None


def _ask_once_or_twice(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Call one candidate; once more if that may help and no other candidate can serve.

    Raises its error if the next candidate is to be asked, which may be the same with another credential.
    """
    try:
        ask_with_hedge(exchange, gateway, target, ask_candidate)
    except UpstreamError as error:
        if not wait_for_retry(exchange, gateway, error) or exchange.has_next_credential:
            raise
        ask_candidate(exchange, gateway, target)


def ask_candidate(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Call one candidate and read its response, and tell its breaker how that went."""
    exchange.attempts.target = target
    begin_measuring(exchange, gateway, target)
    try:
        _run(exchange, gateway, "provider", call_provider)
        _run(exchange, gateway, "response", read_response)
        refuse_filtered(exchange)
    except UpstreamError as error:
        hide_credential(error, target)
        measure_failure(exchange, error)
        note_outcome(exchange, target, Candidate.FAILED, error)
        note_failure(exchange, gateway, target, error)
        if error.allows_failover:
            _inform_breaker(error, exchange, gateway, target)
        else:
            gateway.breakers.record_success(target.provider)
        raise
    note_answer(exchange, gateway, target)
    if exchange.attempts.sending is not None and exchange.attempts.stream is None:
        exchange.attempts.sending.note_first_token()  # a stream's first text is noticed where its chunks are read
    gateway.breakers.record_success(target.provider)
    gateway.rests.record_success(target)


def _drop_smaller(exchange: Exchange, error: UpstreamError) -> None:
    """After a conversation that was too long, keep only the candidates that may have room for it."""
    if cause_of(error) is FallbackCause.CONTEXT_LENGTH:
        keep_larger(exchange)


def _advance(
    exchange: Exchange, gateway: Gateway, error: UpstreamError | None, last_target: Target | None = None
) -> None:
    """Go on with the next candidate; raises attempts.failure if there is none, or if limits have no room for it."""
    failure = exchange.attempts.failure
    if len(exchange.remaining) == 1:
        assert failure is not None
        raise error_of_rest(failure, exchange, gateway)
    if exchange.has_next_credential:
        _take_next_credential(exchange)
        return
    was_admitted = exchange.limits.admitted_target is exchange.remaining[0]
    end_candidate(exchange, gateway, error, was_admitted=was_admitted)
    exchange.attempts.position += 1
    exchange.attempts.target = None
    try:
        _look_up_next(exchange, gateway, ("limits", _reserve_limits), ("cache", look_up))
    except UpstreamError as raised:
        if raised is error:  # no other candidate could be asked: the error is this one's
            exchange.attempts.target = last_target
        raise


def _take_next_credential(exchange: Exchange) -> None:
    """Go on with the provider's next credential: its limits count one request, and its flight goes on."""
    pass_on_to_next_credential(exchange)
    exchange.attempts.position += 1
    exchange.attempts.target = None


def _skip_credentials(exchange: Exchange) -> None:
    """Pass over the provider's other credentials: the request that this one waited for has tried them."""
    while exchange.has_next_credential:
        _take_next_credential(exchange)


def _look_up_next(exchange: Exchange, gateway: Gateway, *steps: tuple[str, Step]) -> None:
    """Run these steps for the next candidate; raises attempts.failure or their error if limits have no room."""
    try:
        for name, step in steps:
            _run(exchange, gateway, name, step)
        return
    except LimitError as full:
        note_outcome(exchange, exchange.remaining[0], Candidate.FULL, full)
        drop_provider_statuses(exchange)
        failure = exchange.attempts.failure or full  # those before it may have rested
    raise failure


def _reserve_limits(exchange: Exchange, gateway: Gateway) -> None:
    choose_key(exchange)
    admit_and_look_up(exchange, gateway)


def _may_be_asked(exchange: Exchange, gateway: Gateway, target: Target) -> bool:
    """Whether its limits had room at admission, and its breaker admits a call or no other candidate can serve."""
    if target in exchange.limits.full_candidates:
        exchange.attempts.failure = exchange.attempts.failure or exchange.limits.refusal
        return False
    if _is_last(exchange, gateway) or gateway.breakers.admits(target.provider):
        return True
    note_outcome(exchange, target, Candidate.RESTING)
    return False


def _is_last(exchange: Exchange, gateway: Gateway) -> bool:
    """Whether no other candidate can serve if this one does not."""
    others = exchange.remaining[1:]
    if not others or all(gateway.rests.holds_back(other) for other in others):
        return True
    return not (FallbackCause.ERROR in exchange.fallback_on or exchange.has_next_credential)


def _is_resting(exchange: Exchange, gateway: Gateway, target: Target) -> bool:
    """Whether it asked for a rest that is not over; the error says when the first of the candidates may be asked."""
    rest = gateway.rests.current(target)
    if rest is None:
        return False
    seconds = math.ceil(gateway.rests.seconds_left(target))
    resting = ProviderOverloaded(
        f"The provider asked for a pause. It ends in {seconds} seconds.", code=rest.code, retry_after=seconds
    )
    note_outcome(exchange, target, Candidate.RESTING, resting)
    if exchange.attempts.failure is None or _rests_longer(exchange.attempts.failure, seconds):
        exchange.attempts.failure = resting
    if not exchange.falls_back_on(resting):
        raise exchange.attempts.failure
    return True


def _pauses_too(exchange: Exchange, gateway: Gateway, target: Target) -> bool:
    """Whether it is paused, and a paused candidate that this request has asked was still limited: one try is enough."""
    failure = exchange.attempts.failure
    if failure is None or not exchange.attempts.has_asked_paused or not gateway.rests.pause_of(target):
        return False
    if cause_of(failure) is not FallbackCause.RATE_LIMITED:
        return False
    note_outcome(exchange, target, Candidate.RESTING)
    if not exchange.falls_back_on(failure):
        raise failure
    return True


def _rests_longer(failure: GatewayError, seconds: float) -> bool:
    return isinstance(failure, ProviderOverloaded) and failure.retry_after is not None and failure.retry_after > seconds


def _run(exchange: Exchange, gateway: Gateway, name: str, step: Step) -> None:
    started_at = perf_counter()
    try:
        step(exchange, gateway)
    finally:
        exchange.record_timing(name, started_at)


def _inform_breaker(error: UpstreamError, exchange: Exchange, gateway: Gateway, target: Target) -> None:
    """Tell the breaker: a provider that sends Retry-After, or limits us (429), works; all other errors are failures.

    Who limits us rests until the time that it names, else it pauses. Of several credentials, one that is refused rests
    at once. The client's own deadline says nothing, nor do models that the provider does not list: clients with linked
    keys may invent any number.
    """
    retry_after = error.retry_after if isinstance(error, ProviderOverloaded) else None
    if retry_after is not None:
        gateway.rests.begin(target, error.code, retry_after)
    elif error.code == TOO_MANY_REQUESTS:
        gateway.rests.pause(target)
    provider = target.provider
    if retry_after is not None or error.code == TOO_MANY_REQUESTS:
        gateway.breakers.record_success(provider)
    elif error.refuses_account or (target.model in provider.models and exchange.call.end is not End.TOTAL):
        gateway.breakers.record_failure(provider, for_good=error.refuses_account and bool(provider.siblings))
