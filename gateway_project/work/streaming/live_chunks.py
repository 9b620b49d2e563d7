"""A provider's stream on its way to the client: forwarded, shared with followers, cached, and written to the log."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic, perf_counter

from django.conf import settings

from gateway_project.errors import GatewayError, GuardrailBlocked, InternalError, ProviderError, UpstreamError
from gateway_project.work.billing import bill_of
from gateway_project.work.cache.storing import (
    cached_answer,
    end_flight,
    release_followers,
    share_and_cache,
    wait_until_stored,
)
from gateway_project.work.exchange import Exchange, StreamDelivery
from gateway_project.work.failover.attempts import is_failure, note_failure
from gateway_project.work.failover.measuring import measure_failure
from gateway_project.work.failover.provider_call import hide_credential
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.answers import begin_guarding
from gateway_project.work.log.content import content_kind
from gateway_project.work.log.entry import write_log
from gateway_project.work.stages.ownership import record_kept
from gateway_project.work.streaming.broadcast import Result, Subscription
from gateway_project.work.streaming.live_stream import LiveStream
from gateway_project.work.streaming.relay import RelayedStream
from gateway_project.work.streaming.stream import Stream, heartbeat_after
from gateway_project.work.streaming.subscription import (
    HEARTBEAT,
    end_of,
    final_error,
    guard_chunks,
    guard_of,
    guarded_error,
    holds_events,
    last_event,
    subscriber_stream,
)
from providers.formats import ClientResponse
from providers.transport.calls import Call, End, Interrupted

USAGE_BYTES = 64 * 1024
OPENING_BYTES = 8 * 1024  # of a stream without a text: then any chunk counts as its first one
ESTIMATE_BYTES = 64 * 1024  # of a stream, from which the tokens of all of it are estimated


def live_chunks(exchange: Exchange, gateway: Gateway, stream: Stream) -> Iterator[bytes]:
    """The provider's stream as it arrives; an error event ends it if it fails.

    As soon as another request follows it, _carry_stream() reads it, and this client is one subscriber of several.
    """
    started_at, max_kept = perf_counter(), _max_kept_bytes()
    on_chunks = partial(_record_chunks, exchange, max_kept)
    reader = stream.reader
    begin_guarding(exchange, gateway, stream)
    exchange.call.outlive_client_if(lambda: bool(reader.finish_reason) and not reader.is_over)
    chunks = _chunks(stream, exchange.call, on_chunks)
    live = LiveStream(exchange, gateway.relay, max_kept, partial(_carry_stream, exchange, gateway, chunks, started_at))
    exchange.connection.bind_pace(exchange.call)
    problem: BaseException | None = None
    try:
        yield b""  # deliver_response() takes this: only a generator that has begun runs its finally clause
        yield from _forward(exchange, gateway, stream, live, chunks, on_chunks)
        if live.close():
            _finish(exchange, gateway)
    except GeneratorExit as closing:  # writing to the client failed
        problem = closing
        raise
    except Exception as error:
        problem = error
    finally:
        if live.close():
            _end(exchange, gateway, started_at, problem)
        elif problem is not None:
            assert live.subscription is not None
            _leave(exchange, gateway, live.subscription, problem)
        has_left, problem = problem is not None, None  # its traceback refers to this frame
    if live.subscription is None:
        exchange.connection.bind_pace(None)  # the end of the call does not cut off the event that tells of it
        if exchange.error is not None and exchange.outcome != "client_closed":
            yield _final_error(exchange, stream, exchange.error)
    elif has_left:
        if live.subscription.outcome != "client_closed":
            yield last_event(exchange, live.subscription, live.subscription.last_chunk)
    else:
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
    on_chunks: Callable[[list[bytes]], None],
) -> Iterator[bytes]:
    """The chunks and heartbeats, as long as nobody follows.

    Once the response's head is sent, the relay thread takes over if it can.
    """
    heartbeat = HEARTBEAT if holds_events(stream) else b""  # lines of JSON have no comments
    connection, last = exchange.connection, b""
    client = connection.client if connection.pace is None else None  # whom this thread waits for without a pace
    exchange.delivery.first_byte_ms = round(exchange.elapsed_ms(), 3)
    if content_kind(exchange) == "redacted":
        exchange.delivery.digest = hashlib.sha256()
    for chunk in guard_chunks(exchange, live.own_chunks(chunks), lambda: live.subscription is None):
        if exchange.cache.flight is not None and exchange.cache.flight.live is None:
            gateway.flights.begin(exchange.cache.flight, live)
        if data := heartbeat_after(last, heartbeat) if chunk is None else chunk:
            last = data
            if client is None:
                yield data
            else:
                exchange.call.pause(client)
                yield data
                exchange.call.resume()
            if gateway.relay.supports(connection) and not _asks_services(exchange):
                on_lag = partial(_release_followers, exchange, gateway, live)
                assert connection.pace is not None
                texts = guard_chunks(exchange, chunks)
                create = partial(
                    RelayedStream, stream, exchange.call, texts, on_chunks, connection.pace, on_lag, live.lock, last
                )
                if (relayed := live.relay(create)) is not None:
                    gateway.relay.forward(relayed, heartbeat)
                return


def _asks_services(exchange: Exchange) -> bool:
    """Whether guardrails ask services at the end, or wait for them: the relay's thread waits for nobody."""
    guard, guarding = guard_of(exchange), exchange.guarding
    return (guard is not None and guard.asks_services) or (guarding is not None and guarding.is_waiting)


def _release_followers(exchange: Exchange, gateway: Gateway, live: LiveStream) -> None:
    """Let nobody wait for a client that does not keep up; those who follow already do not."""
    if live.close():
        release_followers(exchange, gateway)


def _carry_stream(
    exchange: Exchange, gateway: Gateway, chunks: Iterator[bytes | None], started_at: float, live: LiveStream
) -> None:
    """Read the rest of a stream for its subscribers: its own client, which may have left, and its followers."""
    broadcast, own = exchange.delivery.broadcast, live.subscription
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
        _close(exchange, gateway, started_at, problem)
        result = _result(exchange, gateway)
        problem = None  # its traceback refers to this frame
    finally:
        _end_broadcast(exchange, gateway, own, result)


def _end_broadcast(exchange: Exchange, gateway: Gateway, own: Subscription, result: Result) -> None:
    """End the stream for its subscribers, and write the entry if its own client has left.

    The entry is written before the last client is released: until then the server does not stop. Only services that
    record may take long: clients do not wait for them, and the stop of the process does.
    """
    broadcast = own.broadcast
    with gateway.pending_entries.track():
        has_left = broadcast.end_half()
        is_awaited = has_left and _asks_services(exchange)
        try:
            if is_awaited:
                broadcast.end(result)
            if has_left:
                _write_shared_log(exchange, gateway, own)
        finally:
            if not is_awaited:
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
        exchange.end(own.error, own.outcome)
    write_log(exchange, gateway)


def _chunks(stream: Stream, call: Call, on_chunks: Callable[[list[bytes]], None]) -> Iterator[bytes | None]:
    """What each read gives the client: b"" if nothing is complete yet, None for a heartbeat in a silence."""
    reader, heartbeat_seconds = stream.reader, settings.GATEWAY_HEARTBEAT
    chunk = stream.first_chunk or None  # empty: the stream began because the provider was silent
    while True:
        if chunk != b"":
            last_write = call.waiting_since if chunk else monotonic()
        if chunk:
            on_chunks([chunk])
        yield chunk
        if reader.is_over:
            return
        piece = next(stream.pieces, None)
        if call.is_abandoned and piece and _exceeds_usage(stream, piece):
            call.interrupt(End.CLIENT_CLOSED)
            call.check()
        if piece is None:
            chunk = reader.end(stream.provider_response.is_complete)
            if not chunk:
                return
        else:
            chunk = reader.feed(piece) if piece else None
            # A provider that sends only keep-alives is silent to the client.
            if chunk == b"" and call.waiting_since - last_write >= heartbeat_seconds:
                chunk = None


def _record_chunks(exchange: Exchange, max_kept: int, chunks: list[bytes]) -> None:
    """Record chunks that go to the client; only the first `max_kept` bytes of all chunks are kept."""
    delivery, times = exchange.delivery, exchange.call.times
    if times is not None and not times.first_token and _has_text(exchange, b"".join(chunks)):
        exchange.call.note_first_token()
        if exchange.attempts.sending is not None:
            exchange.attempts.sending.note_first_token()
    delivery.last_chunk = chunks[-1]
    surplus = _keep(delivery, max_kept, chunks)
    delivery.size += sum(map(len, chunks))
    if delivery.digest is not None:
        delivery.digest.update(b"".join(chunks))
    if delivery.broadcast is not None:
        delivery.broadcast.publish(surplus)


def _keep(delivery: StreamDelivery, max_kept: int, chunks: list[bytes]) -> bytes:
    """Keep the chunks as far as there is room; the rest."""
    room = max_kept - delivery.size
    if sum(map(len, chunks)) <= room:
        delivery.chunks += chunks
        return b""
    data = b"".join(chunks)
    if room > 0:
        delivery.chunks.append(data[:room])
    return data[max(room, 0) :]


def _has_text(exchange: Exchange, events: bytes) -> bool:
    """Whether the model has generated a part of these events; asked until it has, or OPENING_BYTES went by."""
    stream = exchange.attempts.stream
    assert stream is not None
    return exchange.delivery.size > OPENING_BYTES or stream.reader.has_text(events)


def _max_kept_bytes() -> int:
    """How many bytes of a stream are kept for the cache, for the log, and to estimate its tokens."""
    log_bytes = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES if settings.GATEWAY_LOG_PAYLOAD == "full" else 0
    return max(settings.GATEWAY_CACHE_MAX_ENTRY_BYTES, log_bytes, ESTIMATE_BYTES)


def _finish(exchange: Exchange, gateway: Gateway) -> None:
    """Set the answer of a complete stream, and cache it. Raises ProviderError or Interrupted if it is not complete."""
    stream = exchange.attempts.stream
    assert stream is not None
    reader = stream.reader
    if reader.error is not None:
        raise reader.error
    if not reader.done:
        exchange.call.check()
        raise ProviderError("The provider's stream ended without its terminal mark.")
    exchange.end(outcome="completed")
    exchange.delivery.answer = answer = _read(exchange, stream)
    if exchange.delivery.size <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES:
        started_at = perf_counter()
        share_and_cache(exchange, gateway, answer, list(map(len, exchange.delivery.chunks)))
        wait_until_stored(exchange)
        exchange.record_timing("store", started_at)


def _end(exchange: Exchange, gateway: Gateway, started_at: float, problem: BaseException | None) -> None:
    """End a stream that nobody follows, and write its log entry, whatever happened."""
    try:
        _close(exchange, gateway, started_at, problem)
    finally:
        write_log(exchange, gateway)


def _close(exchange: Exchange, gateway: Gateway, started_at: float, problem: BaseException | None) -> None:
    """Close the provider's connection and end the flight, whatever happened."""
    stream = exchange.attempts.stream
    assert stream is not None
    if problem is not None:
        _fail(exchange, gateway, stream, problem)
        if exchange.outcome == "client_closed":
            _read_usage(exchange.call, stream)
    gateway.watcher.remove(exchange.call)
    exchange.call.note_last_token()
    if problem is None and exchange.attempts.sending is not None:
        exchange.attempts.sending.note_first_token()  # at the latest: an answer may have no text
    stream.provider_response.close()
    if exchange.answer is None:
        exchange.delivery.answer = _read(exchange, stream)
    exchange.record_timing("stream", started_at)
    record_kept(exchange, gateway)
    end_flight(exchange, gateway, exchange.error if exchange.outcome != "client_closed" else None)


def _read_usage(call: Call, stream: Stream) -> None:
    """Read what follows an answer whose client has gone: its usage, which nobody may evade by leaving just before it.

    It is read for at most USAGE_SECONDS and USAGE_BYTES, and only if the answer has reached its end.
    """
    with suppress(GatewayError, Interrupted):
        if not call.abandon():
            return
        for piece in stream.pieces:
            stream.reader.feed(piece)
            if stream.reader.is_over or _exceeds_usage(stream, piece):
                return
        stream.reader.end(stream.provider_response.is_complete)


def _exceeds_usage(stream: Stream, piece: bytes) -> bool:
    """Count a piece that was read after the last client had gone; whether these are too many bytes for a usage."""
    stream.usage_bytes += len(piece)
    return stream.usage_bytes > USAGE_BYTES


def _fail(exchange: Exchange, gateway: Gateway, stream: Stream, problem: BaseException) -> None:
    """Set error and outcome of a stream that did not reach its end."""
    if isinstance(problem, GeneratorExit):
        exchange.end(outcome="client_closed")
        return
    if isinstance(problem, GuardrailBlocked):
        exchange.end(problem)
        return
    if isinstance(problem, GatewayError):
        target = exchange.target
        assert target is not None
        hide_credential(problem, target)
        note_failure(exchange, gateway, target, problem)
        if isinstance(problem, UpstreamError):
            measure_failure(exchange, problem)
        if exchange.call.end is not End.TOTAL and is_failure(problem):
            gateway.breakers.record_failure(target.provider)
    error, outcome = end_of(problem)
    exchange.end(error, "failed" if stream.reader.error is problem else outcome)


def _read(exchange: Exchange, stream: Stream) -> ClientResponse:
    reader = stream.reader
    return ClientResponse(
        b"".join(exchange.delivery.chunks),
        stream.content_type,
        usage=reader.usage,
        finish_reason=reader.finish_reason,
        provider_finish_reason=reader.provider_finish_reason,
    )


def _final_error(exchange: Exchange, stream: Stream, error: GatewayError) -> bytes:
    if (guard := guard_of(exchange)) is not None:
        return guarded_error(exchange, stream, guard, error)
    return final_error(
        exchange, stream, error, exchange.delivery.last_chunk, partial(stream.reader.end_with_error, error)
    )
