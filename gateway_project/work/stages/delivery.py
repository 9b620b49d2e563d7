"""The answer goes back to the client: whole, as a stream while it arrives, or as an error."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic, perf_counter

import orjson
from django.conf import settings

from gateway_project.delivery import Delivery, complete_response
from gateway_project.errors import GatewayError, InternalError, ProviderError
from gateway_project.work.exchange import Exchange, Stream
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits import MAX_AMOUNT, CheckStatus
from gateway_project.work.relay import RelayedStream
from gateway_project.work.stages.cache import give_up_flight, keep, let_others_go
from gateway_project.work.stages.log import log, write_log
from gateway_project.work.stages.provider_call import error_of, hide_credential
from providers.calls import End, Interrupted
from providers.formats import Answer, StreamReader

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": heartbeat\n\n"
ESTIMATE_BYTES = 64 * 1024  # what comes after them is taken to be like them


def deliver(exchange: Exchange, gateway: Gateway) -> Delivery:
    """What the client gets for the exchange as the stages left it. A stream writes its own log entry when it ends."""
    if exchange.error is not None:
        delivery = exchange.entrance.door.refusal(exchange.error, exchange.request_id, exchange.attempts)
    elif exchange.stream is not None:
        chunks = _live(exchange, gateway)
        next(chunks)
        delivery = Delivery(200, _stream_headers(exchange.stream.content_type), chunks)
    elif exchange.stored is not None and exchange.stored.chunks is not None:
        delivery = Delivery(200, _stream_headers(exchange.stored.content_type), _replayed(exchange))
    else:
        delivery = complete_response(200, exchange.answer.content_type, exchange.answer.body)
    add_headers(delivery.headers, exchange)
    return delivery


def hold(exchange: Exchange, go_on: Callable[[], Delivery | None]) -> Delivery:
    """A stream that begins before its answer is there; `go_on` waits for it, for as long as a heartbeat takes."""
    chunks = _held(exchange, go_on)
    next(chunks)
    delivery = Delivery(200, _stream_headers(EVENT_STREAM), chunks)
    add_headers(delivery.headers, exchange)
    return delivery


def _held(exchange: Exchange, go_on: Callable[[], Delivery | None]) -> Iterator[bytes]:
    """Heartbeats until it is known what the answer is, and then that, as events."""
    delivery = None
    try:
        yield b""  # hold() takes this one
        exchange.first_byte_ms = round(exchange.elapsed_ms(), 3)
        while delivery is None:
            yield HEARTBEAT
            delivery = go_on()
    except GeneratorExit:  # writing to the client failed
        exchange.call.interrupt(End.CLIENT_CLOSED)
        go_on()
        raise
    if exchange.error is not None:
        yield _error_event(exchange)
    elif not isinstance(delivery.body, bytes):
        yield from delivery.body
    elif exchange.answer.content_type.startswith(EVENT_STREAM):
        yield delivery.body
    else:  # a provider that was asked for a stream, and gave a whole answer
        yield b"data: " + delivery.body.replace(b"\n", b"\ndata: ") + b"\n\n"


def _error_event(exchange: Exchange) -> bytes:
    if exchange.entrance.door.in_shape:
        return exchange.request.dialect.error_event(exchange.request, exchange.error)
    return b"data: " + orjson.dumps(exchange.error.body()) + b"\n\n"


def _stream_headers(content_type: str) -> list[tuple[str, str]]:
    """The last two keep proxies from gathering a stream before they hand it on."""
    return [
        ("Content-Type", content_type),
        ("Cache-Control", "no-cache, no-transform"),
        ("X-Accel-Buffering", "no"),
    ]


def add_headers(headers: list[tuple[str, str]], exchange: Exchange) -> None:
    """What every answer says about itself in its headers."""
    headers.append(("X-Svc-Request-ID", exchange.request_id))
    if name := exchange.entrance.door.request_id_header:
        headers.append((name, exchange.request_id))
    if exchange.request is not None:
        headers.append(("X-Svc-Cache", exchange.cache_status))
    if exchange.target is not None:
        headers.append(("X-Svc-Provider", exchange.target.provider.header_name))
    if exchange.dropped:
        headers.append(("X-Svc-Dropped", exchange.dropped))
    if exchange.answer is not None and exchange.answer.estimated:
        headers.append(("X-Svc-Estimate", "tokens"))
    if exchange.limit_statuses:
        _add_limits(headers, exchange.limit_statuses)
    timings = [f"{name};dur={(end - begun) * 1e3:.2f}" for name, begun, end in exchange.timings]
    headers.append(("Server-Timing", ", ".join(timings)))


def _add_limits(headers: list[tuple[str, str]], statuses: list[CheckStatus]) -> None:
    """How the limits stand (draft-ietf-httpapi-ratelimit-headers-10); what has no window is not whole at a time."""
    shown = [status for status in statuses if status.check.limit is not None and status.check.amount < MAX_AMOUNT]
    if shown:
        headers.append(("RateLimit-Policy", ", ".join([check.limit.header for check, _, _ in shown])))
        headers.append(("RateLimit", ", ".join(map(_left, shown))))


def _left(statuses: CheckStatus) -> str:
    check, left, reset = statuses
    limit = check.limit
    until = f";t={reset}" if check.window_seconds else ""
    return f'"{limit.policy}";r={limit.in_headers(max(left, 0))}{until}'


def _replayed(exchange: Exchange) -> Iterator[bytes]:
    """A stored stream, chunk by chunk."""
    start = 0
    for size in exchange.stored.chunks:
        yield exchange.stored.body[start : start + size]
        start += size


def _live(exchange: Exchange, gateway: Gateway) -> Iterator[bytes]:
    """The provider's stream as it arrives; where it fails, an error event ends it."""
    begun = perf_counter()
    try:
        yield b""  # deliver() takes this one: a generator that has begun is sure to come to its end
        yield from _forward(exchange, gateway)
        _finish(exchange, gateway)
    except GeneratorExit:  # writing to the client failed
        exchange.outcome = "client_closed"
        raise
    except Interrupted as interrupted:
        exchange.error = error_of(interrupted)
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
        yield _broken(exchange)


def _forward(exchange: Exchange, gateway: Gateway) -> Iterator[bytes]:
    """The chunks and what fills their silences; once the head of the answer is sent, the relay takes over if it can."""
    heartbeat = HEARTBEAT if _holds_events(exchange.stream) else b""  # lines of JSON have no comments
    exchange.first_byte_ms = round(exchange.elapsed_ms(), 3)
    if settings.GATEWAY_LOG_PAYLOAD == "redacted":
        exchange.sent_hash = hashlib.sha256()
    sends = partial(_sends, exchange, _most_kept())
    chunks = _chunks(exchange, sends)
    for chunk in chunks:
        if told := heartbeat if chunk is None else chunk:
            yield told
            if gateway.relay.supports(exchange.incoming):
                lags = partial(let_others_go, exchange, gateway)
                gateway.relay.forward(RelayedStream(exchange.stream, exchange.call, chunks, sends, lags), heartbeat)
                return


def _chunks(exchange: Exchange, sends: Callable[[bytes], None]) -> Iterator[bytes | None]:
    """What goes to the client, read by read: b"" where that was nothing whole, None where the provider was silent."""
    stream, reader, call = exchange.stream, exchange.stream.reader, exchange.call
    patience = settings.GATEWAY_HEARTBEAT
    chunk = stream.first or None  # nothing: it was a silence that began this stream
    while True:
        if chunk != b"":
            told = call.waiting_since if chunk else monotonic()
        if chunk:
            sends(chunk)
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
            if chunk == b"" and call.waiting_since - told >= patience:
                chunk = None


def _sends(exchange: Exchange, most: int, chunk: bytes) -> None:
    """Keep a chunk that goes to the client, as far as there is room for it after all those before it."""
    room = most - exchange.sent_bytes
    exchange.sent_last = chunk
    exchange.sent_bytes += len(chunk)
    if room > 0:
        exchange.sent.append(chunk if len(chunk) <= room else chunk[:room])
    if exchange.sent_hash is not None:
        exchange.sent_hash.update(chunk)


def _most_kept() -> int:
    """So many bytes of a stream are kept: for the cache, for the log, and to estimate its tokens."""
    kept = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES if settings.GATEWAY_LOG_PAYLOAD == "full" else 0
    return max(settings.GATEWAY_CACHE_MAX_ENTRY_BYTES, kept, ESTIMATE_BYTES)


def _finish(exchange: Exchange, gateway: Gateway) -> None:
    """Decide what the end of the stream means. Raises ProviderError where it was not a whole stream."""
    reader = exchange.stream.reader
    if reader.error is not None:
        raise reader.error
    if not reader.done:
        raise ProviderError("The provider's stream ended without its terminal mark.")
    exchange.outcome = "completed"
    exchange.answer = answer = _read(exchange, reader)
    if exchange.sent_bytes <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES:
        keep(exchange, gateway, answer, [len(chunk) for chunk in exchange.sent])


def _close(exchange: Exchange, gateway: Gateway, begun: float) -> None:
    """Whatever happened: the provider's connection is given up, nobody waits in vain, and the entry is written."""
    gateway.watcher.remove(exchange.call)
    exchange.stream.provider_response.close()
    if exchange.answer is None:
        exchange.answer = _read(exchange, exchange.stream.reader)
    exchange.timings.append(("stream", begun, perf_counter()))
    try:
        give_up_flight(exchange, gateway, exchange.error if exchange.outcome != "client_closed" else None)
    finally:
        write_log(exchange, gateway)


def _read(exchange: Exchange, reader: StreamReader) -> Answer:
    return Answer(
        b"".join(exchange.sent),
        exchange.stream.content_type,
        usage=reader.usage,
        finish_reason=reader.finish_reason,
        provider_finish_reason=reader.provider_finish_reason,
    )


def _holds_events(stream: Stream) -> bool:
    """Whether it consists of server-sent events, or else of lines of JSON."""
    return stream.content_type.lower().startswith(EVENT_STREAM)


def _broken(exchange: Exchange) -> bytes:
    """The error inside a stream: in the door's shape, or its three fields as a data event or as a line of JSON."""
    stream, error, after = exchange.stream, exchange.error, exchange.sent_last
    if not exchange.entrance.door.in_shape and (told := stream.reader.native_error(error)):
        return told
    gap = b"\n\n" if _holds_events(stream) else b"\n"
    if exchange.entrance.door.in_shape:
        told = stream.reader.end_with_error(error)
    else:
        told = (b"data: " if _holds_events(stream) else b"") + orjson.dumps(error.body()) + gap
    begun = after and not after.endswith((b"\n", b"\r"))  # the provider was cut off in the middle of a line
    return gap + told if begun else told
