"""Stage 9: the answer goes to the client: whole, as a stream while it arrives, or as an error."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic, perf_counter

import orjson
from django.conf import settings

from gateway_project.errors import GatewayError, InternalError, ProviderError
from gateway_project.server.client_response import Delivery, complete_response
from gateway_project.work.exchange import Exchange, Stream
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.checks import MAX_AMOUNT, CheckStatus
from gateway_project.work.log.entry import log, write_log
from gateway_project.work.stages.cache import end_flight, release_followers, store_answer
from gateway_project.work.stages.provider_call import hide_credential, interruption_error
from gateway_project.work.streaming.relay import RelayedStream
from providers.formats import Answer, StreamReader
from providers.transport.calls import End, Interrupted

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": heartbeat\n\n"
ESTIMATE_BYTES = 64 * 1024  # of a stream, from which the tokens of all of it are estimated


def deliver(exchange: Exchange, gateway: Gateway) -> Delivery:
    """The client's response. A live stream writes its own log entry when it ends."""
    if exchange.error is not None:
        delivery = exchange.endpoint.door.refusal(exchange.error, exchange.request_id, exchange.attempts)
    elif exchange.stream is not None:
        chunks = _live_stream(exchange, gateway)
        next(chunks)
        delivery = Delivery(200, _stream_headers(exchange.stream.content_type), chunks)
    elif exchange.cached_answer is not None and exchange.cached_answer.chunk_sizes is not None:
        delivery = Delivery(200, _stream_headers(exchange.cached_answer.content_type), _replayed(exchange))
    else:
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
        yield _error_event(exchange)
    elif not isinstance(delivery.body, bytes):
        yield from delivery.body
    elif exchange.answer.content_type.startswith(EVENT_STREAM):
        yield delivery.body
    else:  # the provider was asked for a stream, and gave a whole answer
        yield b"data: " + delivery.body.replace(b"\n", b"\ndata: ") + b"\n\n"


def _error_event(exchange: Exchange) -> bytes:
    if exchange.endpoint.door.in_shape:
        return exchange.request.dialect.error_event(exchange.request, exchange.error)
    return b"data: " + orjson.dumps(exchange.error.body()) + b"\n\n"


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


def _replayed(exchange: Exchange) -> Iterator[bytes]:
    """A cached stream, chunk by chunk."""
    start = 0
    for size in exchange.cached_answer.chunk_sizes:
        yield exchange.cached_answer.body[start : start + size]
        start += size


def _live_stream(exchange: Exchange, gateway: Gateway) -> Iterator[bytes]:
    """The provider's stream as it arrives; an error event ends it if it fails."""
    begun = perf_counter()
    try:
        yield b""  # deliver() takes this one: only a generator that has begun runs its finally clause
        yield from _forward(exchange, gateway)
        _finish(exchange, gateway)
    except GeneratorExit:  # writing to the client failed
        exchange.outcome = "client_closed"
        raise
    except Interrupted as interrupted:
        exchange.error = interruption_error(interrupted)
        exchange.outcome = "client_closed" if interrupted.end is End.CLIENT_CLOSED else "truncated"
    except GatewayError as error:
        hide_credential(error, exchange.target)
        exchange.error = error
        exchange.outcome = "failed" if exchange.stream.reader.error is error else "truncated"
        if exchange.call.end is not End.TOTAL:
            gateway.breakers.failed(exchange.target.provider.id)
    except Exception as error:
        log.exception("A stream failed.")
        exchange.error, exchange.outcome = InternalError(), "failed"
        exchange.error.__cause__ = error
    else:
        return
    finally:
        _close(exchange, gateway, begun)
    if exchange.outcome != "client_closed":
        yield _final_error(exchange)


def _forward(exchange: Exchange, gateway: Gateway) -> Iterator[bytes]:
    """The chunks and heartbeats; once the response's head is sent, the relay thread takes over if it can."""
    heartbeat = HEARTBEAT if _holds_events(exchange.stream) else b""  # lines of JSON have no comments
    exchange.first_byte_ms = round(exchange.elapsed_ms(), 3)
    if settings.GATEWAY_LOG_PAYLOAD == "redacted":
        exchange.sent_hash = hashlib.sha256()
    on_chunk = partial(_record_chunk, exchange, _max_kept_bytes())
    chunks = _chunks(exchange, on_chunk)
    for chunk in chunks:
        if data := heartbeat if chunk is None else chunk:
            yield data
            if gateway.relay.supports(exchange.connection):
                on_lag = partial(release_followers, exchange, gateway)
                gateway.relay.forward(
                    RelayedStream(exchange.stream, exchange.call, chunks, on_chunk, on_lag), heartbeat
                )
                return


def _chunks(exchange: Exchange, on_chunk: Callable[[bytes], None]) -> Iterator[bytes | None]:
    """What each read gives the client: b"" if nothing is complete yet, None for a heartbeat in a silence."""
    stream, reader, call = exchange.stream, exchange.stream.reader, exchange.call
    heartbeat_seconds = settings.GATEWAY_HEARTBEAT
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


def _max_kept_bytes() -> int:
    """How many bytes of a stream are kept for the cache, for the log, and to estimate its tokens."""
    kept = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES if settings.GATEWAY_LOG_PAYLOAD == "full" else 0
    return max(settings.GATEWAY_CACHE_MAX_ENTRY_BYTES, kept, ESTIMATE_BYTES)


def _finish(exchange: Exchange, gateway: Gateway) -> None:
    """Set the answer of a complete stream, and cache it. Raises ProviderError if it is not complete."""
    reader = exchange.stream.reader
    if reader.error is not None:
        raise reader.error
    if not reader.done:
        raise ProviderError("The provider's stream ended without its terminal mark.")
    exchange.outcome = "completed"
    exchange.answer = answer = _read(exchange, reader)
    if exchange.sent_bytes <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES:
        store_answer(exchange, gateway, answer, [len(chunk) for chunk in exchange.sent_chunks])


def _close(exchange: Exchange, gateway: Gateway, begun: float) -> None:
    """Close the provider's connection, end the flight and write the log entry, whatever happened."""
    gateway.watcher.remove(exchange.call)
    exchange.stream.provider_response.close()
    if exchange.answer is None:
        exchange.answer = _read(exchange, exchange.stream.reader)
    exchange.timings.append(("stream", begun, perf_counter()))
    try:
        end_flight(exchange, gateway, exchange.error if exchange.outcome != "client_closed" else None)
    finally:
        write_log(exchange, gateway)


def _read(exchange: Exchange, reader: StreamReader) -> Answer:
    return Answer(
        b"".join(exchange.sent_chunks),
        exchange.stream.content_type,
        usage=reader.usage,
        finish_reason=reader.finish_reason,
        provider_finish_reason=reader.provider_finish_reason,
    )


def _holds_events(stream: Stream) -> bool:
    """Whether it consists of server-sent events; otherwise of lines of JSON."""
    return stream.content_type.lower().startswith(EVENT_STREAM)


def _final_error(exchange: Exchange) -> bytes:
    """The error at the end of a stream: in the door's shape, or its three fields as a data event or a line of JSON."""
    stream, error, after = exchange.stream, exchange.error, exchange.last_sent
    if not exchange.endpoint.door.in_shape and (event := stream.reader.native_error(error)):
        return event
    gap = b"\n\n" if _holds_events(stream) else b"\n"
    if exchange.endpoint.door.in_shape:
        event = stream.reader.end_with_error(error)
    else:
        event = (b"data: " if _holds_events(stream) else b"") + orjson.dumps(error.body()) + gap
    is_cut_off = after and not after.endswith((b"\n", b"\r"))  # the provider was cut off in the middle of a line
    return gap + event if is_cut_off else event
