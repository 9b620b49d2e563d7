"""One attempt: the request is sent to a provider, once more if it did not arrive."""

import re
from time import time

from gateway_project.errors import (
    ClientClosed,
    CredentialRevoked,
    GatewayError,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
    UnusableAnswer,
    UpstreamError,
)
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.attempts import begin_attempt, note_failure
from gateway_project.work.gateway import Gateway
from gateway_project.work.log.entry import write_start
from gateway_project.work.snapshot.records import Target
from providers.formats import Format
from providers.formats.dropped import dropped_header
from providers.transport.calls import End, Interrupted
from providers.transport.provider_response import NotReceived, ProviderResponse
from providers.transport.transport import ProviderRequest

REFUSAL_BYTES = 256 * 1024
NOT_WORKED_ON = (401, 403)  # a refused credential buys nothing; neither does a redirect


def call_provider(exchange: Exchange, gateway: Gateway) -> None:
    """Send the request; set the response once the provider has accepted it with status 200."""
    target, work = exchange.target, exchange.request
    assert target is not None
    assert work is not None
    provider, model = target
    assert provider.format is not None, "a provider without a format is no candidate"
    outgoing = provider.format.request(work, provider.upstream_name(model), provider.options_for(model))
    exchange.attempts.dropped, exchange.attempts.added = dropped_header(outgoing.dropped), outgoing.added
    address = provider.address(outgoing.path)
    authentication = provider.authentication(address, outgoing.body, time())
    request = ProviderRequest(address, outgoing.body, {**authentication, **outgoing.headers})
    exchange.call.attempt(provider.total_seconds)
    response = _send(exchange, gateway, target, request)
    if response.status != 200:
        raise refusal_of(provider.format, response)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        response.close()
        raise ProviderError("The provider sent a compressed answer although it was asked not to.")
    exchange.attempts.response = response


def _send(exchange: Exchange, gateway: Gateway, target: Target, request: ProviderRequest) -> ProviderResponse:
    """Send the request; once more on a new connection if the provider had closed the kept one before it arrived.

    Each sending is an attempt. The first is no failure for the breaker: to close idle connections is no fault.
    """
    limits = target.provider.transport_limits
    _begin(exchange, gateway, target)
    try:
        return gateway.transport.send(request, limits, exchange.call)
    except NotReceived as error:
        note_failure(exchange, gateway, target, error)
    _begin(exchange, gateway, target)
    return gateway.transport.send(request, limits, exchange.call, may_reuse=False)


def _begin(exchange: Exchange, gateway: Gateway, target: Target) -> None:
    if not exchange.is_rival:  # the request's own thread may write its end meanwhile
        write_start(exchange, gateway, calls_provider=True)
    begin_attempt(exchange, gateway, target)


def hide_credential(error: GatewayError, target: Target) -> None:
    """Remove the provider's credentials from an error's message, and name the model as clients do."""
    error.redact(target.provider.redact)
    if (upstream := target.provider.upstream_name(target.model)) != target.model:
        upstream_name = re.compile(rf"(?<![\w.-]){re.escape(upstream)}(?![\w-]|\.\w)")
        error.redact(lambda text: upstream_name.sub(lambda _: target.model, text))


def interruption_error(interrupted: Interrupted) -> GatewayError:
    """The client's error for a call that was ended from outside."""
    if interrupted.end is End.CLIENT_CLOSED:
        return ClientClosed()
    if interrupted.end is End.REVOKED:
        return CredentialRevoked()
    if interrupted.end is End.STOPPING:
        return ServiceUnavailable("The gateway is stopping. Send the request again.")
    return ProviderTimeout(f"The provider {interrupted.end.value}.")


def refusal_of(target_format: Format, response: ProviderResponse) -> GatewayError:
    """The error in a response with a status other than 200."""
    response.limit(REFUSAL_BYTES)
    status, headers = response.status, response.headers
    try:
        body = response.read()
    except (ProviderError, ProviderTimeout, UnusableAnswer):
        body = b""
    error = target_format.refusal_from_response(status, headers, body)
    if isinstance(error, UpstreamError) and (status in NOT_WORKED_ON or 300 <= status < 400):
        error.may_have_worked = error.is_transient = False
    return error
