"""The body of a request: received within its bounds of size and time, and changed by guardrails."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from time import monotonic

from gateway_project.json_types import JsonObject
from gateway_project.server.bodies import READY_BYTES, Read, body_timeout, read_body
from gateway_project.server.http1.messages import has_arrived, is_buffered
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.demand import have_known_shapes
from gateway_project.work.limits.output_bound import bound_unknown_output
from gateway_project.work.snapshot.records import Target
from providers.formats import WorkRequest
from providers.formats.json_values import dump_value


def receive_body(exchange: Exchange, gateway: Gateway) -> bytes:
    """The body; the client's connection is shut down if it does not send it in time."""
    call, headers, caller = exchange.call, exchange.connection.environ, exchange.identity.caller
    assert caller is not None  # authenticate() has set it
    if call.client is not None and is_buffered(headers["wsgi.input"]):  # it came with the head, and has its memory
        return read_body(headers, gateway.max_body_bytes)

    def reserve(size: int) -> None:
        gateway.body_memory.reserve(size, caller.id)
        exchange.options.body_bytes += size

    def read_in_time(read: Read, size: int) -> bytes:
        if call.client is None:
            return read()
        seconds = body_timeout(size, gateway.client_seconds, gateway.min_body_rate)
        return gateway.read_in_time(call, call.started + seconds - monotonic(), read)

    length = headers.get("CONTENT_LENGTH") or ""
    is_short = length.isdecimal() and int(length) <= READY_BYTES
    waits = not is_short and call.client is not None and not has_arrived(headers["wsgi.input"])
    with gateway.upload_places.place(caller.id) if waits else nullcontext():
        return read_body(headers, gateway.max_body_bytes, reserve, read_in_time)


def replace_body(exchange: Exchange, body: JsonObject) -> None:
    """Go on with this body in the place of the client's."""
    assert exchange.request is not None
    exchange.request = replace(exchange.request, body=body, raw=dump_value(body))


def bound_for_unknown_shapes(exchange: Exchange, targets: Sequence[Target]) -> WorkRequest:
    """The request, which goes on within its key's bound of tokens where a target's service has an unknown shape.

    Such a service may answer what looks like an embedding with a text.
    """
    assert exchange.request is not None
    if exchange.request.operation == "embedding" and not have_known_shapes(targets):
        exchange.request = bound_unknown_output(exchange.request, exchange.identity)
    return exchange.request
