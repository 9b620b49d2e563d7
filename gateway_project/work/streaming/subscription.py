"""Stage 9 of a stream with several clients: each gets the chunks of the broadcast at its own pace."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

import orjson
from django.conf import settings

from gateway_project.errors import ClientClosed, GatewayError, GuardrailBlocked, InternalError
from gateway_project.work.cache.lookup import use_answer
from gateway_project.work.cache.storing import end_flight
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.provider_call import interruption_error
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.answers import begin_guarding
from gateway_project.work.guardrails.streams import StreamGuard
from gateway_project.work.log.content import content_kind
from gateway_project.work.log.entry import write_log
from gateway_project.work.streaming.broadcast import Result, Subscription
from gateway_project.work.streaming.stream import EVENT_STREAM, Stream, heartbeat_after, is_in_line
from providers.transport.calls import End, Interrupted

log = logging.getLogger("gateway.work")

# Of a stream that was ended by something other than its provider; otherwise it is truncated.
OUTCOMES = {End.CLIENT_CLOSED: "client_closed", End.REVOKED: "revoked"}
HEARTBEAT = b": heartbeat\n\n"


def followed_stream(exchange: Exchange, gateway: Gateway, subscription: Subscription) -> Iterator[bytes]:
    """What a follower gets of another request's stream: from the beginning on, and then as it arrives."""
    exchange.delivery.first_byte_ms = round(exchange.elapsed_ms(), 3)
    begin_guarding(exchange, gateway, subscription.broadcast.stream)
    if content_kind(exchange) == "redacted":
        exchange.delivery.digest = hashlib.sha256()
    conclude = partial(_conclude, exchange, gateway, subscription, perf_counter())
    return subscriber_stream(exchange, gateway, subscription, conclude)


def subscriber_stream(
    exchange: Exchange, gateway: Gateway, subscription: Subscription, conclude: Callable[[], None]
) -> Iterator[bytes]:
    """The chunks for one client, with heartbeats, and an error event if they end too early.

    The first item is empty: only a generator that has begun runs its finally clause. `conclude` is called once the
    client's part has ended, however it did.
    """
    heartbeat = HEARTBEAT if holds_events(subscription.broadcast.stream) else b""  # lines of JSON have no comments
    last = subscription.last_chunk
    exchange.connection.bind_pace(subscription.call)
    try:
        with gateway.watcher.watch_call(subscription.call):
            yield b""
            for chunk in _guarded_subscription(exchange, subscription.chunks(settings.GATEWAY_HEARTBEAT)):
                last = chunk or last
                if subscription is exchange.cache.subscription and exchange.delivery.digest is not None:
                    exchange.delivery.digest.update(chunk)
                if data := chunk or heartbeat_after(last, heartbeat):
                    yield data
    except GeneratorExit:  # writing to the client failed
        subscription.end(ClientClosed(), "client_closed")
        raise
    except Exception as problem:
        subscription.end(*end_of(problem))
    finally:
        exchange.connection.bind_pace(None)
        subscription.leave()
        conclude()
    if subscription.outcome != "client_closed":
        yield last_event(exchange, subscription, last)


def end_of(problem: BaseException) -> tuple[GatewayError, str]:
    """The error and the outcome of a client's stream that was ended by an exception."""
    if isinstance(problem, GeneratorExit):
        return ClientClosed(), "client_closed"
    if isinstance(problem, Interrupted):
        return interruption_error(problem), OUTCOMES.get(problem.end, "truncated")
    if isinstance(problem, GatewayError):
        return problem, "blocked" if isinstance(problem, GuardrailBlocked) else "truncated"
    log.error("A stream failed.", exc_info=problem)
    error = InternalError()
    error.__cause__ = problem
    return error, "failed"


def guard_chunks(
    exchange: Exchange, chunks: Iterator[bytes | None], has_ended: Callable[[], bool] = lambda: True
) -> Iterator[bytes | None]:
    """The chunks as guardrails let this client have them; what is held follows if the stream has ended.

    Raises GuardrailBlocked.
    """
    guard = guard_of(exchange)
    return chunks if guard is None else guard.guard(chunks, has_ended)


def guard_of(exchange: Exchange) -> StreamGuard | None:
    """What watches the stream; None if no guardrail applies to it."""
    return None if exchange.guarding is None else exchange.guarding.stream


def _guarded_subscription(exchange: Exchange, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same for a subscriber, whose silence is b"": a chunk of which nothing is passed on is none."""
    guard = guard_of(exchange)
    if guard is None:
        yield from chunks
        return
    for chunk in chunks:
        data = guard.feed(chunk) if chunk else b""
        if data or not chunk or guard.is_silent():
            yield data
    if rest := guard.end():
        yield rest


def holds_events(stream: Stream) -> bool:
    """Whether it consists of server-sent events; otherwise of lines of JSON."""
    return stream.content_type.lower().startswith(EVENT_STREAM)


def final_error(
    exchange: Exchange, stream: Stream, error: GatewayError, after: bytes, end_with_error: Callable[[], bytes]
) -> bytes:
    """The error at the end of a stream: in the door's shape, or its three fields as a data event or a line of JSON.

    `after` is what the client got last, `end_with_error` writes the events of a door.
    """
    in_shape = exchange.endpoint.door.in_shape
    if not in_shape and (event := stream.reader.native_error(error)):
        return event
    gap = b"\n\n" if holds_events(stream) else b"\n"
    if in_shape:
        event = end_with_error()
    else:
        event = (b"data: " if holds_events(stream) else b"") + orjson.dumps(error.body()) + gap
    return gap + event if is_in_line(after) else event  # there the provider was cut off


def guarded_error(exchange: Exchange, stream: Stream, guard: StreamGuard, error: GatewayError) -> bytes:
    """The error at the end of a stream that guardrails watch, in whole events; it repeats nothing of the answer."""
    request = exchange.request
    assert request is not None
    write = partial(request.dialect.error_event, request, error)
    return guard.take_unsent() + final_error(exchange, stream, error, b"", write)


def last_event(exchange: Exchange, subscription: Subscription, after: bytes) -> bytes:
    """The error event of a client whose stream has ended, b"" if it ended well."""
    broadcast, request = subscription.broadcast, exchange.request
    assert request is not None
    if (guard := guard_of(exchange)) is not None:
        ended_with = subscription.error or (broadcast.result and broadcast.result.error)
        return guarded_error(exchange, broadcast.stream, guard, ended_with) if ended_with else b""
    if (error := subscription.error) is not None:  # the stream's reader is in use for the others
        write = partial(request.dialect.error_event, request, error)
        return final_error(exchange, broadcast.stream, error, after, write)
    assert broadcast.result is not None
    if (error := broadcast.result.error) is None:
        return b""
    write = partial(broadcast.stream.reader.end_with_error, error, request)
    return final_error(exchange, broadcast.stream, error, after, lambda: broadcast.error_event(write))


def _conclude(exchange: Exchange, gateway: Gateway, subscription: Subscription, started_at: float) -> None:
    """Settle what a follower holds, and write its log entry, as for an answer from the cache."""
    if subscription.error is not None:
        exchange.end(subscription.error, subscription.outcome)
    else:
        _apply_result(exchange, subscription.broadcast.result)
    exchange.delivery.size = subscription.size
    if exchange.answer is None:
        exchange.delivery.chunks = subscription.broadcast.past_chunks(subscription.position)
    exchange.record_timing("stream", started_at)
    try:
        end_flight(exchange, gateway, None)
    finally:
        write_log(exchange, gateway)


def _apply_result(exchange: Exchange, result: Result | None) -> None:
    """Make the end of the broadcast that of a follower who got all of it."""
    assert result is not None
    if result.error is not None:
        exchange.end(result.error, "truncated")
    else:
        assert result.answer is not None
        use_answer(exchange, result.answer)
