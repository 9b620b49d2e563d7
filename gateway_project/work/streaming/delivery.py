"""Stage 9: the answer goes to the client: whole, as a stream while it arrives, or as an error."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic, perf_counter

import orjson
from django.conf import settings

from gateway_project.errors import GatewayError, InternalError, ProviderError
from gateway_project.server.client_response import Delivery, complete_response
from gateway_project.work.billing import bill_of
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.checks import MAX_AMOUNT, CheckStatus
from gateway_project.work.log.entry import write_log
from gateway_project.work.stages.cache import cached_answer, end_flight, release_followers, store_answer
from gateway_project.work.stages.provider_call import hide_credential
from gateway_project.work.streaming.broadcast import Result, Subscription
from gateway_project.work.streaming.live_stream import LiveStream
from gateway_project.work.streaming.relay import RelayedStream
from gateway_project.work.streaming.stream import Stream
from gateway_project.work.streaming.subscription import (
    EVENT_STREAM,
    HEARTBEAT,
    end_of,
    final_error,
    followed_stream,
    holds_events,
    subscriber_stream,
)
from providers.formats import Answer
from providers.transport.calls import Call, End

ESTIMATE_BYTES = 64 * 1024  # of a stream, from which the tokens of all of it are estimated


def deliver(exchange: Exchange, gateway: Gateway) -> Delivery:
    """The client's response. A live stream writes its own log entry when it ends."""
    if exchange.error is not None:
        delivery = exchange.endpoint.door.refusal(exchange.error, exchange.request_id, exchange.attempts)
    elif exchange.stream is not None:
        chunks = _live_stream(exchange, gateway, exchange.stream)
        next(chunks)
        delivery = Delivery(200, _stream_headers(exchange.stream.content_type), chunks)
    elif exchange.subscription is not None:
        chunks = followed_stream(exchange, gateway, exchange.subscription)
        next(chunks)
        delivery = Delivery(200, _stream_headers(exchange.subscription.broadcast.stream.content_type), chunks)
    elif (replay := exchange.cached_answer) is not None and replay.chunk_sizes is not None:
        chunks = _replayed(replay.body, replay.chunk_sizes)
        delivery = Delivery(200, _stream_headers(replay.content_type), chunks)
    else:
        assert exchange.answer is not None
        delivery = complete_response(200, exchange.answer.content_type, exchange.answer.body)
    add_headers(delivery.headers, exchange)
    return delivery


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
        exchange.first_byte_ms = round(exchange.elapsed_ms(), 3)
        while delivery is None:
            yield HEARTBEAT
            delivery = resume()
    except GeneratorExit:  # writing to the client failed
        exchange.call.interrupt(End.CLIENT_CLOSED)
        resume()
        raise
    if exchange.error is not None:
        yield _error_event(exchange, exchange.error)
    elif not isinstance(delivery.body, bytes):
        yield from delivery.body
    else:
        assert exchange.answer is not None
        yield _as_events(delivery.body, exchange.answer.content_type)


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
        ("Cache-Control", "no-cache, no-transform"),
        ("X-Accel-Buffering", "no"),
    ]


def add_headers(headers: list[tuple[str, str]], exchange: Exchange) -> None:
    """Add the headers that every response has."""
    headers.append(("X-Svc-Request-ID", exchange.request_id))
    if name := exchange.endpoint.door.request_id_header:
        headers.append((name, exchange.request_id))
    if exchange.request is not None:
        headers.append(("X-Svc-Cache", exchange.cache_status))
    if exchange.target is not None:
        headers.append(("X-Svc-Provider", exchange.target.provider.header_name))
    if exchange.dropped:
        headers.append(("X-Svc-Dropped", exchange.dropped))
    if exchange.added:
        headers.append(("X-Svc-Added", exchange.added))
    if exchange.answer is not None and exchange.answer.estimated:
        headers.append(("X-Svc-Estimate", "tokens"))
    if exchange.limit_statuses:
        _add_limits(headers, exchange.limit_statuses)
    timings = [f"{name};dur={(end - begun) * 1e3:.2f}" for name, begun, end in exchange.timings]
    headers.append(("Server-Timing", ", ".join(timings)))


def _add_limits(headers: list[tuple[str, str]], statuses: list[CheckStatus]) -> None:
    """RateLimit headers (draft-ietf-httpapi-ratelimit-headers-10); a limit without a window has no reset time."""
    shown = [status for status in statuses if status.check.limit.policy and status.check.amount < MAX_AMOUNT]
    if shown:
        headers.append(("RateLimit-Policy", ", ".join([check.limit.header for check, _, _ in shown])))
        headers.append(("RateLimit", ", ".join(map(_rate_limit_item, shown))))


def _rate_limit_item(status: CheckStatus) -> str:
    check, remaining, reset = status
    limit = check.limit
    until = f";t={reset}" if check.window_seconds else ""
    return f'"{limit.policy}";r={limit.header_amount(max(remaining, 0))}{until}'


def _replayed(body: bytes, chunk_sizes: list[int]) -> Iterator[bytes]:
    """A cached stream, chunk by chunk."""
    start = 0
    for size in chunk_sizes:
        yield body[start : start + size]
        start += size


def _live_stream(exchange: Exchange, gateway: Gateway, stream: Stream) -> Iterator[bytes]:
    """The provider's stream as it arrives; an error event ends it if it fails.

    As soon as another request follows it, _carry() reads it, and this client is one subscriber of several.
    """
    begun, max_kept = perf_counter(), _max_kept_bytes()
    on_chunk = partial(_record_chunk, exchange, max_kept)
    chunks = _chunks(stream, exchange.call, on_chunk)
    live = LiveStream(exchange, gateway.relay, max_kept, partial(_carry, exchange, gateway, chunks, begun))
    problem: BaseException | None = None
    try:
        yield b""  # deliver() takes this one: only a generator that has begun runs its finally clause
        yield from _forward(exchange, gateway, stream, live, chunks, on_chunk)
        if live.close():
            _finish(exchange, gateway)
    except GeneratorExit as closing:  # writing to the client failed
        problem = closing
        raise
    except Exception as error:
        problem = error
    finally:
        if live.close():
            _end(exchange, gateway, begun, problem)
        elif problem is not None:
            assert live.subscription is not None
            _leave(exchange, gateway, live.subscription, problem)
        has_left, problem = problem is not None, None  # its traceback refers to this frame
    if live.subscription is None:
        if exchange.error is not None and exchange.outcome != "client_closed":
            yield _final_error(exchange, stream, exchange.error)
    elif not has_left:
        conclude = partial(_conclude_client, exchange, gateway, live.subscription)
        own = subscriber_stream(exchange, gateway, live.subscription, conclude)
        next(own)
        yield from own


def _forward(
    exchange: Exchange,
    gateway: Gateway,
    stream: Stream,
    live: LiveStream,
    chunks: Iterator[bytes | None],
    on_chunk: Callable[[bytes], None],
) -> Iterator[bytes]:
    """The chunks and heartbeats, as long as nobody follows.

    Once the response's head is sent, the relay thread takes over if it can.
    """
    heartbeat = HEARTBEAT if holds_events(stream) else b""  # lines of JSON have no comments
    exchange.first_byte_ms = round(exchange.elapsed_ms(), 3)
    if settings.GATEWAY_LOG_PAYLOAD == "redacted":
        exchange.sent_hash = hashlib.sha256()
    for chunk in live.own_chunks(chunks):
        if exchange.flight is not None and exchange.flight.live is None:
            gateway.flights.begin(exchange.flight, live)
        if data := heartbeat if chunk is None else chunk:
            yield data
            if gateway.relay.supports(exchange.connection):
                on_lag = partial(_release_followers, exchange, gateway, live)
                relayed = RelayedStream(stream, exchange.call, chunks, on_chunk, on_lag, live.lock)
                if live.relay(relayed):
                    gateway.relay.forward(relayed, heartbeat)
                return


def _release_followers(exchange: Exchange, gateway: Gateway, live: LiveStream) -> None:
    """Let nobody wait for a client that does not keep up; those who follow already do not."""
    if live.close():
        release_followers(exchange, gateway)


def _carry(
    exchange: Exchange, gateway: Gateway, chunks: Iterator[bytes | None], begun: float, live: LiveStream
) -> None:
    """Read the rest of a stream for its subscribers: its own client, which may have left, and its followers."""
    broadcast, own = exchange.broadcast, live.subscription
    assert broadcast is not None
    assert own is not None
    result = Result(error=InternalError())
    problem: BaseException | None = None
    try:
        try:
            for _ in chunks:
                pass
            _finish(exchange, gateway)
        except Exception as error:
            problem = error
        _close(exchange, gateway, begun, problem)
        result = _result(exchange, gateway)
        problem = None  # its traceback refers to this frame
    finally:  # entries are written before the last client is released: until then the server does not stop
        try:
            if broadcast.end_half():
                _write_shared_log(exchange, gateway, own)
        finally:
            broadcast.end(result)


def _result(exchange: Exchange, gateway: Gateway) -> Result:
    bill = bill_of(exchange, gateway.snapshot)  # what was bought, whatever becomes of the client that asked for it
    if exchange.outcome != "completed":
        return Result(error=exchange.error or InternalError())
    assert exchange.answer is not None
    return Result(cached_answer(exchange, exchange.answer, None, bill))


def _leave(exchange: Exchange, gateway: Gateway, own: Subscription, problem: BaseException) -> None:
    """End the part of a client whose stream goes on for others."""
    own.end(*end_of(problem))
    own.leave()
    _conclude_client(exchange, gateway, own)


def _conclude_client(exchange: Exchange, gateway: Gateway, own: Subscription) -> None:
    if own.broadcast.end_half():
        _write_shared_log(exchange, gateway, own)


def _write_shared_log(exchange: Exchange, gateway: Gateway, own: Subscription) -> None:
    """Write the entry of the request that asked the provider: its bill is the stream's, its outcome its client's."""
    if own.error is not None:
        exchange.error, exchange.outcome = own.error, own.outcome
    write_log(exchange, gateway)


def _chunks(stream: Stream, call: Call, on_chunk: Callable[[bytes], None]) -> Iterator[bytes | None]:
    """What each read gives the client: b"" if nothing is complete yet, None for a heartbeat in a silence."""
    reader, heartbeat_seconds = stream.reader, settings.GATEWAY_HEARTBEAT
    chunk = stream.first_chunk or None  # empty: the stream began because the provider was silent
    while True:
        if chunk != b"":
            last_write = call.waiting_since if chunk else monotonic()
        if chunk:
            on_chunk(chunk)
        yield chunk
        if reader.is_over:
            return
        piece = next(stream.pieces, None)
        if piece is None:
            chunk = reader.end(stream.provider_response.is_complete)
            if not chunk:
                return
        else:
            chunk = reader.feed(piece) if piece else None
            # A provider that sends only keep-alives is silent to the client.
            if chunk == b"" and call.waiting_since - last_write >= heartbeat_seconds:
                chunk = None


def _record_chunk(exchange: Exchange, max_kept: int, chunk: bytes) -> None:
    """Record a chunk that goes to the client; only the first `max_kept` bytes of all chunks are kept."""
    room = max_kept - exchange.sent_bytes
    exchange.last_sent = chunk
    exchange.sent_bytes += len(chunk)
    if room > 0:
        exchange.sent_chunks.append(chunk if len(chunk) <= room else chunk[:room])
    if exchange.sent_hash is not None:
        exchange.sent_hash.update(chunk)
    if exchange.broadcast is not None:
        exchange.broadcast.publish(chunk[max(room, 0) :])


def _max_kept_bytes() -> int:
    """How many bytes of a stream are kept for the cache, for the log, and to estimate its tokens."""
    log_bytes = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES if settings.GATEWAY_LOG_PAYLOAD == "full" else 0
    return max(settings.GATEWAY_CACHE_MAX_ENTRY_BYTES, log_bytes, ESTIMATE_BYTES)


def _finish(exchange: Exchange, gateway: Gateway) -> None:
    """Set the answer of a complete stream, and cache it. Raises ProviderError if it is not complete."""
    stream = exchange.stream
    assert stream is not None
    reader = stream.reader
    if reader.error is not None:
        raise reader.error
    if not reader.done:
        raise ProviderError("The provider's stream ended without its terminal mark.")
    exchange.outcome = "completed"
    exchange.answer = answer = _read(exchange, stream)
    if exchange.sent_bytes <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES:
        store_answer(exchange, gateway, answer, [len(chunk) for chunk in exchange.sent_chunks])


def _end(exchange: Exchange, gateway: Gateway, begun: float, problem: BaseException | None) -> None:
    """End a stream that nobody follows, and write its log entry, whatever happened."""
    try:
        _close(exchange, gateway, begun, problem)
    finally:
        write_log(exchange, gateway)


def _close(exchange: Exchange, gateway: Gateway, begun: float, problem: BaseException | None) -> None:
    """Close the provider's connection and end the flight, whatever happened."""
    stream = exchange.stream
    assert stream is not None
    if problem is not None:
        _fail(exchange, gateway, stream, problem)
    gateway.watcher.remove(exchange.call)
    stream.provider_response.close()
    if exchange.answer is None:
        exchange.answer = _read(exchange, stream)
    exchange.timings.append(("stream", begun, perf_counter()))
    end_flight(exchange, gateway, exchange.error if exchange.outcome != "client_closed" else None)


def _fail(exchange: Exchange, gateway: Gateway, stream: Stream, problem: BaseException) -> None:
    """Set error and outcome of a stream that did not reach its end."""
    if isinstance(problem, GeneratorExit):
        exchange.outcome = "client_closed"
        return
    if isinstance(problem, GatewayError):
        target = exchange.target
        assert target is not None
        hide_credential(problem, target)
        if exchange.call.end is not End.TOTAL:
            gateway.breakers.failed(target.provider.id)
    exchange.error, exchange.outcome = end_of(problem)
    if stream.reader.error is problem:
        exchange.outcome = "failed"


def _read(exchange: Exchange, stream: Stream) -> Answer:
    reader = stream.reader
    return Answer(
        b"".join(exchange.sent_chunks),
        stream.content_type,
        usage=reader.usage,
        finish_reason=reader.finish_reason,
        provider_finish_reason=reader.provider_finish_reason,
    )


def _final_error(exchange: Exchange, stream: Stream, error: GatewayError) -> bytes:
    return final_error(exchange, stream, error, exchange.last_sent, partial(stream.reader.end_with_error, error))
