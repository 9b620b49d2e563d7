"""Stage 9: the answer goes to the client: whole, as a stream while it arrives, or as an error."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

import orjson

from gateway_project.errors import GatewayError
from gateway_project.server.http_delivery import NO_SNIFFING, Delivery, complete_response
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.checks import MAX_AMOUNT, CheckStatus
from gateway_project.work.streaming.live_chunks import live_chunks
from gateway_project.work.streaming.stream import EVENT_STREAM
from gateway_project.work.streaming.subscription import HEARTBEAT, followed_stream
from providers.formats import ClientResponse
from providers.formats.dropped import HEADER as DROPPED
from providers.transport.calls import End

ADDED = "X-Svc-Added"


def deliver_response(exchange: Exchange, gateway: Gateway) -> Delivery:
    """The client's response. A live stream writes its own log entry when it ends."""
    if exchange.error is not None:
        delivery = exchange.endpoint.door.refusal(exchange.error, exchange.request_id, exchange.attempts.count)
    elif exchange.attempts.stream is not None:
        chunks = live_chunks(exchange, gateway, exchange.attempts.stream)
        next(chunks)
        delivery = Delivery(200, _stream_headers(exchange.attempts.stream.content_type), chunks)
    elif exchange.cache.subscription is not None:
        chunks = followed_stream(exchange, gateway, exchange.cache.subscription)
        next(chunks)
        delivery = Delivery(200, _stream_headers(exchange.cache.subscription.broadcast.stream.content_type), chunks)
    elif (replay := exchange.cache.hit) is not None and replay.chunk_sizes is not None:
        guarded = None if exchange.guarding is None else exchange.guarding.chunks
        chunks = _replay_chunks(replay.body, replay.chunk_sizes) if guarded is None else iter(guarded)
        delivery = Delivery(200, _stream_headers(replay.content_type), chunks)
    else:
        answer = guarded_answer(exchange)
        assert answer is not None
        delivery = complete_response(200, answer.content_type, answer.body)
    add_headers(delivery.headers, exchange)
    return delivery


def guarded_answer(exchange: Exchange) -> ClientResponse | None:
    """The answer as guardrails let this client have it."""
    guarding = exchange.guarding
    return exchange.answer if guarding is None or guarding.answer is None else guarding.answer


def deliver_later(exchange: Exchange, resume: Callable[[], Delivery | None]) -> Delivery:
    """A stream that begins before its answer is known; `resume` waits for the answer up to one heartbeat interval."""
    chunks = _heartbeats_then_answer(exchange, resume)
    next(chunks)
    delivery = Delivery(200, _stream_headers(EVENT_STREAM), chunks)
    add_headers(delivery.headers, exchange)
    return delivery


def _heartbeats_then_answer(exchange: Exchange, resume: Callable[[], Delivery | None]) -> Iterator[bytes]:
    """Heartbeats until the answer is known, then the answer as events."""
    delivery = None
    try:
        yield b""  # deliver_later() takes this one
        exchange.delivery.first_byte_ms = round(exchange.elapsed_ms(), 3)
        while delivery is None:
            yield HEARTBEAT
            delivery = resume()
    except GeneratorExit:  # writing to the client failed
        exchange.call.interrupt(End.CLIENT_CLOSED)
        resume()
        raise
    if names := _late_headers(exchange):
        yield names
    if exchange.error is not None:
        yield _error_event(exchange, exchange.error)
    elif not isinstance(delivery.body, bytes):
        yield from delivery.body
    else:
        assert exchange.answer is not None
        yield _as_events(delivery.body, exchange.answer.content_type)


def _late_headers(exchange: Exchange) -> bytes:
    """The headers that only an answer has, as comments, which clients skip: its head has been sent already."""
    changes = exchange.parameter_changes
    late_headers = {DROPPED: changes.dropped, ADDED: changes.added}
    return b"".join(f": {name}: {value}\n\n".encode() for name, value in late_headers.items() if value)


def _as_events(body: bytes, content_type: str) -> bytes:
    """A body that holds events, or as one event: a provider may send a whole answer instead of a stream."""
    return body if content_type.startswith(EVENT_STREAM) else b"data: " + body.replace(b"\n", b"\ndata: ") + b"\n\n"


def _error_event(exchange: Exchange, error: GatewayError) -> bytes:
    if exchange.endpoint.door.in_shape:
        request = exchange.request
        assert request is not None
        return request.dialect.error_event(request, error)
    return b"data: " + orjson.dumps(error.body()) + b"\n\n"


def _stream_headers(content_type: str) -> list[tuple[str, str]]:
    """The last two keep proxies from buffering the stream."""
    return [
        ("Content-Type", content_type),
        NO_SNIFFING,
        ("Cache-Control", "no-cache, no-transform"),
        ("X-Accel-Buffering", "no"),
    ]


def add_headers(headers: list[tuple[str, str]], exchange: Exchange) -> None:
    """Add the headers that every response has."""
    headers.append(("X-Svc-Request-ID", exchange.request_id))
    if name := exchange.endpoint.door.request_id_header:
        headers.append((name, exchange.request_id))
    if exchange.request is not None:
        headers.append(("X-Svc-Cache", exchange.cache.status))
        headers.append(("X-Svc-Attempts", str(exchange.attempts.count)))
    if (target := exchange.target) is not None:
        headers.append(("X-Svc-Provider", target.provider.header_name))
        headers.append(("X-Svc-Model", target.model if target.model.isascii() else quote(target.model)))
    changes = exchange.parameter_changes
    if changes.dropped:
        headers.append((DROPPED, changes.dropped))
    if changes.added:
        headers.append((ADDED, changes.added))
    if (answer := exchange.answer) is not None and answer.estimated:
        headers.append(("X-Svc-Estimate", "tokens"))
    if exchange.limits.statuses:
        _add_limits(headers, exchange.limits.statuses)
    timings = [f"{name};dur={(end - started_at) * 1e3:.2f}" for name, started_at, end in exchange.timings]
    headers.append(("Server-Timing", ", ".join(timings)))


def _add_limits(headers: list[tuple[str, str]], statuses: list[CheckStatus]) -> None:
    """RateLimit headers (draft-ietf-httpapi-ratelimit-headers-10); a limit without a window has no reset time."""
    policies, items = [], []
    for check, remaining, reset in statuses:
        limit = check.limit
        if limit.policy and check.amount < MAX_AMOUNT:
            until = f";t={reset}" if check.window_seconds else ""
            policies.append(limit.header)
            items.append(f'"{limit.policy}";r={limit.header_amount(max(remaining, 0))}{until}')
    if policies:
        headers += (("RateLimit-Policy", ", ".join(policies)), ("RateLimit", ", ".join(items)))


def _replay_chunks(body: bytes, chunk_sizes: list[int]) -> Iterator[bytes]:
    """A cached stream, chunk by chunk."""
    start = 0
    for size in chunk_sizes:
        yield body[start : start + size]
        start += size
