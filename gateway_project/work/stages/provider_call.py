"""Stage 6: call the provider; of several candidates the first that answers."""

import math
from collections.abc import Callable
from time import perf_counter, time

from gateway_project.errors import (
    ClientClosed,
    GatewayError,
    LimitError,
    ProviderError,
    ProviderOverloaded,
    ProviderTimeout,
    ServiceUnavailable,
    UpstreamError,
    ValidationError,
)
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.entry import write_start
from gateway_project.work.routing.outcomes import note_outcome
from gateway_project.work.snapshot.records import ProviderSnapshot, Target
from gateway_project.work.stages.admission import admit_to_provider
from gateway_project.work.stages.cache import drop_candidate, look_up_cache
from providers.formats import Format
from providers.formats.dropped import dropped_header
from providers.transport.calls import End, Interrupted
from providers.transport.provider_response import NotReceived, ProviderResponse
from providers.transport.transport import ProviderRequest
from telemetry.models import Candidate

REFUSAL_BYTES = 256 * 1024
NOT_WORKED_ON = (401, 403)  # a refused credential buys nothing; neither does a redirect

Attempt = Callable[[Exchange, Gateway], None]


def each_candidate(*attempt: tuple[str, Attempt]) -> Attempt:
    """A stage that runs these stages for one candidate after the other, until one has begun to answer.

    Until then nothing has been sent to the client, so that it never sees two beginnings.
    """

    def stage(exchange: Exchange, gateway: Gateway) -> None:
        # An answer may have come from the cache or another request, even that of a later candidate, or be an estimate.
        while exchange.answer is None and exchange.subscription is None:
            gateway.watcher.add(exchange.call)
            target, failed = exchange.remaining[0], None
            if not _rests(exchange, gateway, target) and _may_be_asked(exchange, gateway, target):
                try:
                    admit_to_provider(exchange, gateway, target)
                    _attempt(exchange, gateway, target, attempt)
                    return
                except (LimitError, ValidationError) as unfit:  # its limit is reached, or its format cannot express it
                    exchange.failure = exchange.failure or unfit
                    note_outcome(
                        exchange, target, Candidate.FULL if isinstance(unfit, LimitError) else Candidate.UNFIT, unfit
                    )
                except UpstreamError as error:
                    exchange.failure = failed = error
                    # After the last one call.end is kept: a provider that ran out of time has read the request.
                    if not error.allows_failover or len(exchange.remaining) == 1 or not exchange.call.prepare_retry():
                        raise
            drop_candidate(exchange, gateway, failed)
            try:
                _run(exchange, gateway, "cache", look_up_cache)
            except UpstreamError as error:
                if error is failed:  # no other candidate could be asked: the error is this one's
                    exchange.target = target
                raise

    return stage


def _may_be_asked(exchange: Exchange, gateway: Gateway, target: Target) -> bool:
    """Whether its limits had room at admission, and its breaker admits a call or no other candidate can serve."""
    if target in exchange.full_candidates:
        return False
    is_last = all(gateway.rests.current(other.provider) for other in exchange.remaining[1:])
    if is_last or gateway.breakers.admits(target.provider.id):
        return True
    note_outcome(exchange, target, Candidate.RESTING)
    return False


def _rests(exchange: Exchange, gateway: Gateway, target: Target) -> bool:
    """Whether it asked for a rest that is not over; the error says when the first of the candidates may be asked."""
    rest = gateway.rests.current(target.provider)
    if rest is None:
        return False
    seconds = math.ceil(gateway.rests.seconds_left(target.provider))
    resting = ProviderOverloaded(
        f"The provider asked for a pause of {seconds} more seconds.", code=rest.code, retry_after=seconds
    )
    note_outcome(exchange, target, Candidate.RESTING, resting)
    if exchange.failure is None or _rests_longer(exchange.failure, seconds):
        exchange.failure = resting
    return True


def _rests_longer(failure: GatewayError, seconds: float) -> bool:
    return isinstance(failure, ProviderOverloaded) and failure.retry_after is not None and failure.retry_after > seconds


def _run(exchange: Exchange, gateway: Gateway, name: str, step: Attempt) -> None:
    begun = perf_counter()
    try:
        step(exchange, gateway)
    finally:
        exchange.timings.append((name, begun, perf_counter()))


def _attempt(exchange: Exchange, gateway: Gateway, target: Target, steps: tuple[tuple[str, Attempt], ...]) -> None:
    """Try one candidate, and tell its breaker how that went."""
    exchange.target = target
    try:
        for name, step in steps:
            _run(exchange, gateway, name, step)
    except UpstreamError as error:
        hide_credential(error, target)
        note_outcome(exchange, target, Candidate.FAILED, error)
        if error.allows_failover:
            gateway.metrics.attempt_failed(target.provider.name, error.exception)
            _note_failure(error, exchange, gateway, target.provider)
        else:
            gateway.breakers.succeeded(target.provider.id)
        raise
    gateway.breakers.succeeded(target.provider.id)


def call_provider(exchange: Exchange, gateway: Gateway) -> None:
    """Send the request; set the response once the provider has accepted it with status 200."""
    target, work = exchange.target, exchange.request
    assert target is not None
    assert work is not None
    provider, model = target
    assert provider.format is not None, "a provider without a format is no candidate"
    outgoing = provider.format.request(work, model, provider.options_for(model))
    exchange.dropped, exchange.added = dropped_header(outgoing.dropped), outgoing.added
    address = provider.address(outgoing.path)
    authentication = provider.authentication(address, outgoing.body, time())
    request = ProviderRequest(address, outgoing.body, {**authentication, **outgoing.headers})
    exchange.call.attempt(provider.total_seconds)
    response = _send(exchange, gateway, provider, request)
    if response.status != 200:
        raise _refusal(provider.format, response)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        response.close()
        raise ProviderError("The provider sent a compressed answer although it was asked not to.")
    exchange.provider_response = response


def _send(
    exchange: Exchange, gateway: Gateway, provider: ProviderSnapshot, request: ProviderRequest
) -> ProviderResponse:
    """Send the request; once more on a new connection if the provider had closed the kept one before it arrived.

    Each sending is an attempt. The first is no failure for the breaker: to close idle connections is no fault.
    """
    _note_attempt(exchange, gateway, provider)
    try:
        return gateway.transport.send(request, provider.transport_limits, exchange.call)
    except NotReceived as error:
        gateway.metrics.attempt_failed(provider.name, error.exception)
    _note_attempt(exchange, gateway, provider)
    return gateway.transport.send(request, provider.transport_limits, exchange.call, may_reuse=False)


def _note_attempt(exchange: Exchange, gateway: Gateway, provider: ProviderSnapshot) -> None:
    write_start(exchange, gateway, calls_provider=True)
    exchange.asked_provider_ids += (provider.id,)


def hide_credential(error: GatewayError, target: Target) -> None:
    """Remove the provider's credential from an error's message."""
    error.redact(target.provider.redact)


def interruption_error(interrupted: Interrupted) -> GatewayError:
    """The client's error for a call that was ended from outside."""
    if interrupted.end is End.CLIENT_CLOSED:
        return ClientClosed()
    if interrupted.end is End.STOPPING:
        return ServiceUnavailable("The gateway is stopping; send the request again.")
    return ProviderTimeout(f"The provider {interrupted.end.value}.")


def _refusal(target_format: Format, response: ProviderResponse) -> GatewayError:
    """The error in a response with a status other than 200."""
    response.limit(REFUSAL_BYTES)
    status, headers = response.status, response.headers
    try:
        body = response.read()
    except (ProviderError, ProviderTimeout):
        body = b""
    error = target_format.refusal_from_response(status, headers, body)
    if isinstance(error, UpstreamError) and (status in NOT_WORKED_ON or 300 <= status < 400):
        error.may_have_worked = False
    return error


def _note_failure(error: GatewayError, exchange: Exchange, gateway: Gateway, provider: ProviderSnapshot) -> None:
    """Tell the breaker: who is overloaded for a time that it names, or limits us (429), works; all else is a failure.

    The client's own deadline says nothing.
    """
    retry_after = error.retry_after if isinstance(error, ProviderOverloaded) else None
    if retry_after is not None:
        gateway.rests.begin(provider, error.code, retry_after)
    if retry_after is not None or error.code == 429:
        gateway.breakers.succeeded(provider.id)
    elif exchange.call.end is not End.TOTAL:
        gateway.breakers.failed(provider.id)
