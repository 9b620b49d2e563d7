"""An active check: a tiny request to one model of a provider, outside of any client's request."""

import time
from typing import NamedTuple

from gateway_project.errors import GatewayError, UpstreamError, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import DIALECTS
from gateway_project.work.failover.provider_call import hide_credential, interruption_error, refusal_of
from gateway_project.work.snapshot.records import Target
from gateway_project.work.streaming.watch import Watcher
from providers.formats import WorkRequest
from providers.formats.json_values import dump_value
from providers.transport.calls import Call, Interrupted
from providers.transport.transport import ProviderRequest, Transport

CHECK_SECONDS = 15.0  # for all of it
ANSWER_BYTES = 256 * 1024
PROMPT = "Hi"


class CheckResult(NamedTuple):
    """How a check ended: `error` is None if the provider answered, or refused the request for what it asks."""

    target: Target
    error: GatewayError | None
    duration_ms: float


def check_target(target: Target, transport: Transport, watcher: Watcher) -> CheckResult:
    """Ask a target for one token. The watcher has to run: it ends the call when its time is up."""
    started_at = time.perf_counter()
    call = Call(client=None, total_seconds=CHECK_SECONDS)
    error: GatewayError | None = None
    try:
        with watcher.watch_call(call):
            _ask_target(target, transport, call)
    except Interrupted as interrupted:
        error = interruption_error(interrupted)
    except GatewayError as raised:
        error = raised
    if error is not None:
        hide_credential(error, target)
    is_refusal = isinstance(error, UpstreamError) and not error.allows_failover
    return CheckResult(target, None if is_refusal else error, (time.perf_counter() - started_at) * 1000)


def _ask_target(target: Target, transport: Transport, call: Call) -> None:
    """Raises UpstreamError and Interrupted, and ValidationError if no tiny request can be made for the model."""
    provider, model = target
    if provider.format is None:
        raise ValidationError(f"This version does not know the format {provider.format_name}.")
    request = tiny_request(target)
    outgoing = provider.format.request(request, provider.upstream_name(model), provider.options_for(model))
    address = provider.address(outgoing.path)
    authentication = provider.authentication(address, outgoing.body, time.time())
    provider_request = ProviderRequest(address, outgoing.body, {**authentication, **outgoing.headers})
    call.attempt(CHECK_SECONDS)
    response = transport.send(provider_request, provider.transport_limits, call, may_reuse=False)
    if response.status != 200:
        raise refusal_of(provider.format, response)
    response.limit(ANSWER_BYTES)
    provider.format.answer_from_response(request, response.headers, response.read())


def tiny_request(target: Target) -> WorkRequest:
    """A request for one token, or for the embedding of one word, under our name of the model."""
    provider, model = target
    facts = provider.facts.get(model)
    operation = "embedding" if facts is not None and "embedding" in facts.output_modalities else "chat"
    chat: JsonObject = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 1}
    body = {"model": model} | (chat if operation == "chat" else {"input": PROMPT})
    return WorkRequest(operation, model, body, dump_value(body), dialect=DIALECTS[operation])
