"""Stage 6: the provider is called; of several candidates the first that answers."""

from collections.abc import Callable, Sequence
from time import perf_counter, time
from urllib.parse import quote

from gateway_project.errors import (
    ClientClosed,
    GatewayError,
    LimitError,
    ProviderError,
    ProviderOverloaded,
    ProviderRejected,
    ProviderTimeout,
    ServiceUnavailable,
    UpstreamError,
    ValidationError,
)
from gateway_project.work.considered import note
from gateway_project.work.exchange import LONGEST_LIST, Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot import Target
from gateway_project.work.stages.admission import admit_to
from gateway_project.work.stages.log import write_start
from providers.calls import End, Interrupted
from providers.transport import ProviderRequest
from telemetry.models import Candidate

REFUSAL_BYTES = 256 * 1024
FAILURES = (ProviderError, ProviderTimeout, ProviderOverloaded)

Attempt = Callable[[Exchange, Gateway], None]


def each_candidate(*attempt: tuple[str, Attempt]) -> Attempt:
    """A stage that tries these stages on one candidate after the other, until one has begun to answer.

    Nothing has reached the client up to then, so that it never sees two beginnings.
    """

    def stage(exchange: Exchange, gateway: Gateway) -> None:
        if exchange.answer is not None:  # stored, or estimated
            return
        gateway.watcher.add(exchange.call)
        failure: GatewayError | None = None
        for target in (candidates := _with_room(exchange)):
            if target is not candidates[-1] and not gateway.breakers.admits(target.provider.id):
                note(exchange, target, Candidate.RESTING)
                continue
            try:
                admit_to(exchange, gateway, target)
                _attempt(exchange, gateway, target, attempt)
                return
            except (LimitError, ValidationError) as unfit:  # its limit is reached, or it has no place for something
                failure = failure or unfit
                note(exchange, target, Candidate.FULL if isinstance(unfit, LimitError) else Candidate.UNFIT, unfit)
            except UpstreamError as error:
                failure = error
                if not next_may_serve(error) or not exchange.call.try_again():
                    break
        raise failure

    return stage


def _with_room(exchange: Exchange) -> Sequence[Target]:
    """The candidates without those that were passed over when the request was admitted."""
    full = exchange.passed_over
    return [target for target in exchange.candidates if target not in full] if full else exchange.candidates


def _attempt(exchange: Exchange, gateway: Gateway, target: Target, steps: tuple[tuple[str, Attempt], ...]) -> None:
    """Try one candidate, and note what that says about its provider."""
    exchange.target = target
    try:
        for name, step in steps:
            begun = perf_counter()
            try:
                step(exchange, gateway)
            finally:
                exchange.timings.append((name, begun, perf_counter()))
    except UpstreamError as error:
        hide_credential(error, target)
        note(exchange, target, Candidate.FAILED, error)
        if next_may_serve(error):
            gateway.metrics.failed(target.provider.name, error.exception)
            _note_failure(error, exchange, gateway)
        else:
            gateway.breakers.succeeded(target.provider.id)
        raise
    gateway.breakers.succeeded(target.provider.id)


def next_may_serve(error: UpstreamError) -> bool:
    """Whether another candidate may do better: a request that a provider rejects is rejected, unless it is the
    gateway's account there that cannot pay."""
    return isinstance(error, FAILURES) or error.code == ProviderRejected.UNPAID


def call_provider(exchange: Exchange, gateway: Gateway) -> None:
    """Send the request and set the conversation, once the provider has accepted it with status 200."""
    if not exchange.attempts:
        write_start(exchange, gateway, asks=True)
    provider, model = exchange.target
    outgoing = provider.format.request(exchange.request, model, provider.options_for(model))
    exchange.attempts += 1
    exchange.dropped = _listed(outgoing.dropped)
    address = provider.address(outgoing.path)
    authentication = provider.authentication(address, outgoing.body, time())
    request = ProviderRequest(address, outgoing.body, {**authentication, **outgoing.headers})
    exchange.call.attempt(provider.total_seconds)
    conversation = gateway.transport.send(request, provider.patience, exchange.call)
    if conversation.status != 200:
        raise _refusal(exchange.target, conversation)
    if conversation.headers.get("content-encoding", "identity") != "identity":
        conversation.close()
        raise ProviderError("The provider sent a compressed answer, which it was not asked for.")
    exchange.conversation = conversation


def _listed(names: tuple[str, ...]) -> str:
    """Names as a header can carry them; of more than fit the first."""
    told = ", ".join([quote(name[:LONGEST_LIST], safe=" ") for name in names[:LONGEST_LIST]])
    return told if len(told) <= LONGEST_LIST else f"{told[: LONGEST_LIST - 5]}, ..."


def hide_credential(error: GatewayError, target: Target) -> None:
    """Take the credential out of a provider's words."""
    error.hide(target.provider.hide)


def error_of(interrupted: Interrupted) -> GatewayError:
    """What a call that was ended from outside means to its client."""
    if interrupted.end is End.CLIENT_CLOSED:
        return ClientClosed()
    if interrupted.end is End.STOPPING:
        return ServiceUnavailable("The gateway is stopping; send the request again.")
    return ProviderTimeout(f"The provider {interrupted.end.value}.")


def _refusal(target: Target, conversation) -> GatewayError:
    """The error in an answer that is not 200."""
    conversation.limit(REFUSAL_BYTES)
    status, headers = conversation.status, conversation.headers
    try:
        body = conversation.read()
    except (ProviderError, ProviderTimeout):
        body = b""
    return target.provider.format.refused(status, headers, body)


def _note_failure(error: GatewayError, exchange: Exchange, gateway: Gateway) -> None:
    """A provider that limits us works, and a client's own haste says nothing; everything else is a failure."""
    if error.code == 429:
        gateway.breakers.succeeded(exchange.target.provider.id)
    elif exchange.call.end is not End.TOTAL:
        gateway.breakers.failed(exchange.target.provider.id)
