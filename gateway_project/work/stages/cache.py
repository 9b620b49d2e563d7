"""Stages 5 and 8: a cached answer makes calling a provider unnecessary; a new answer is cached."""

import math

from django.conf import settings

from gateway_project.errors import CacheMiss, GatewayError, LimitError, UpstreamError
from gateway_project.work.bill import Bill
from gateway_project.work.billing import bill_of
from gateway_project.work.cache.flights import FlightPending, FlightWait
from gateway_project.work.cache.key import cache_key
from gateway_project.work.cache.packing import CachedAnswer, pack, unpack
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.checks import NOTHING_HELD, Admission
from gateway_project.work.log.entry import cache_record, write_start
from gateway_project.work.routing.outcomes import note_outcome
from gateway_project.work.snapshot.records import Target
from gateway_project.work.stages.admission import (
    admit,
    final_settlement,
    provider_settlement,
    release_reservations,
    settle,
    without_provider_limits,
)
from gateway_project.work.streaming.broadcast import Subscription
from providers.formats import Answer, Usage
from providers.formats.base import COUNT_TOKENS
from providers.transport.calls import End
from telemetry.journal.records import to_record
from telemetry.models import Candidate

UNFINISHED = ("error", "pause")  # finish reasons of answers that are not cached: the next attempt may give a whole one


def look_up_cache(exchange: Exchange, gateway: Gateway) -> None:
    """Count the request against its limits, and set the cached answer for the next candidate if there is one.

    Of identical requests without one, the first goes on and the others wait here for its answer, or for the beginning
    of its stream, to which they subscribe. If the first fails
    with an error after which another candidate may serve, the others drop the candidate too and look up the next one.
    Raises RateLimited, CacheMiss if only a cached answer was wanted, or the error of the first request; FlightPending
    if the client of a stream needs a heartbeat: then this is called again.
    """
    while True:
        try:
            return _look_up(exchange, gateway)
        except UpstreamError as error:
            exchange.failure = error
            if not error.allows_failover:
                raise
            note_outcome(exchange, exchange.remaining[0], Candidate.FAILED, error)
            drop_candidate(exchange, gateway, error)
        except LimitError as full:
            if exchange.failure is None:
                raise
            note_outcome(exchange, exchange.remaining[0], Candidate.FULL, full)
            exchange.limit_statuses = without_provider_limits(exchange.limit_statuses)
            break
    raise exchange.failure


def drop_candidate(exchange: Exchange, gateway: Gateway, error: UpstreamError | None) -> None:
    """Go on with the next candidate; end the flight with the error, and give back what was taken of its limits.

    Without an error the followers try this candidate themselves. Raises exchange.failure if no candidate remains.
    """
    if len(exchange.remaining) == 1:
        assert exchange.failure is not None
        raise exchange.failure
    was_admitted = exchange.admitted_target is exchange.remaining[0]
    settlement = provider_settlement(exchange, gateway) if was_admitted else NOTHING_HELD
    flight, exchange.flight = exchange.flight, None
    if flight is not None:
        gateway.flights.land(flight, None, 0, error, settlement=settlement)
    elif settlement.holds:
        gateway.state.settle(settlement)
    exchange.tried += 1
    exchange.target, exchange.cache_key = None, ""


def _look_up(exchange: Exchange, gateway: Gateway) -> None:
    target = exchange.remaining[0]
    if exchange.flight_wait is not None:
        flight_wait, exchange.flight_wait = exchange.flight_wait, None
        admission = _follow(exchange, gateway, flight_wait)
        if admission is not None:
            _apply_admission(exchange, gateway, target, admission, flight_wait.token)
        return
    calls_provider = exchange.cache_control != "only"
    if exchange.cache_control == "bypass" or not _cache_seconds(exchange, target):
        admit(exchange, gateway, calls_provider=calls_provider)
        if not calls_provider:
            raise CacheMiss
        return
    exchange.cache_key = key_of(exchange, target)
    exchange.cache_status = "MISS"
    if exchange.cache_control == "refresh":
        admit(exchange, gateway)
        return
    token = (exchange.token or gateway.flights.token()) if calls_provider else ""
    admission = admit(exchange, gateway, exchange.cache_key, token, read=True, calls_provider=calls_provider)
    _apply_admission(exchange, gateway, target, admission, token)


def _apply_admission(exchange: Exchange, gateway: Gateway, target: Target, admission: Admission, token: str) -> None:
    """Use the cached answer, lead the flight, or wait for its leader; without a token only a cached answer will do."""
    while True:
        if admission.value is not None:
            if not _use_cached(exchange, admission.value, target):
                break  # not written by pack(): no flight is led, and the next good answer replaces it
            return
        if admission.leads:
            exchange.flight = gateway.flights.lead(exchange.cache_key, token)
            return
        if not token:
            break
        if (newer := _follow(exchange, gateway, FlightWait(token))) is None:
            return
        admission = newer
    if not token:
        raise CacheMiss
    admit(exchange, gateway)  # the holds that a cached answer would not have needed


def key_of(exchange: Exchange, target: Target) -> str:
    """The cache key of a request to a provider: content, model, provider, shape and scope."""
    provider, request = target.provider, exchange.request
    assert request is not None
    return cache_key(
        exchange.request_digest,
        target.model,
        provider.id,
        provider.url,
        provider.format_name,
        request.operation,
        request.dialect.name,
        request.via_door,
        sorted(request.headers.items()),
        cache_scope_of(exchange, provider.cache_scope),
    )


def cache_scope_of(exchange: Exchange, scope: str) -> str:
    """Whom a cached answer is shared with; empty for everybody."""
    caller = exchange.caller
    if scope == "key" and exchange.key is not None:
        return f"key {exchange.key.id}"
    assert caller is not None
    if scope in ("user", "key"):
        return f"user {caller.id}"
    if scope == "group":
        return f"groups {sorted(caller.group_ids)}" if caller.group_ids else f"user {caller.id}"
    return ""


def update_cache(exchange: Exchange, gateway: Gateway) -> None:
    """Cache a whole answer, and share it with the requests that wait for it."""
    if exchange.answer is None or exchange.cached_answer is not None:
        return
    store_answer(exchange, gateway, exchange.answer, None)


def store_answer(exchange: Exchange, gateway: Gateway, answer: Answer, chunk_sizes: list[int] | None) -> None:
    """Cache a complete answer: whole, or as the chunks of a stream that reached its end.

    One that the model itself broke off is only shared with the requests that wait for it.
    """
    if not exchange.cache_key:
        return
    target = exchange.target
    assert target is not None
    stored = cached_answer(exchange, answer, chunk_sizes, bill := bill_of(exchange, gateway.snapshot))
    value = pack(stored)
    fits = len(answer.body) <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES
    seconds = _cache_seconds(exchange, target) if fits and answer.finish_reason not in UNFINISHED else 0
    _share_answer(exchange, gateway, value, seconds)
    if seconds > 0:
        gateway.note_cached(to_record(cache_record(exchange, stored, seconds, bill.cost)))


def _share_answer(exchange: Exchange, gateway: Gateway, value: bytes, seconds: int) -> None:
    """End the flight with the answer, also if it is not cached (seconds = 0); without a flight cache it."""
    if exchange.flight is None and seconds <= 0:
        return
    settlement = final_settlement(exchange, gateway)
    flight, exchange.flight = exchange.flight, None
    if flight is not None:
        gateway.flights.land(flight, value, seconds, settlement=settlement)
    else:
        gateway.state.store(exchange.cache_key, value, seconds, "", settlement)


def cached_answer(exchange: Exchange, answer: Answer, chunk_sizes: list[int] | None, bill: Bill) -> CachedAnswer:
    """An answer of this request as it is cached, and as its followers get it."""
    assert exchange.target is not None
    provider = exchange.target.provider
    return CachedAnswer(
        answer.body,
        answer.content_type,
        chunk_sizes,
        provider.id,
        provider.name,
        _usage_list(bill.usage),
        bill.estimated,
        answer.finish_reason,
        answer.provider_finish_reason,
        exchange.dropped,
    )


def end_flight(exchange: Exchange, gateway: Gateway, error: GatewayError | None) -> None:
    """End the flight without an answer: followers get the provider's error, or one of them takes over.

    Errors of this request alone, its own deadline or its client's leaving, are not shared. What the request held is
    settled, in the same round trip if it leads a flight.
    """
    if exchange.flight is None:
        settle(exchange, gateway)
        return
    shared = isinstance(error, UpstreamError) and exchange.call.end is not End.TOTAL
    settlement = final_settlement(exchange, gateway)
    flight, exchange.flight = exchange.flight, None
    gateway.flights.land(flight, None, 0, error if shared else None, settlement=settlement)


def release_followers(exchange: Exchange, gateway: Gateway) -> None:
    """End the flight while this request goes on alone: one of the followers asks for itself."""
    flight, exchange.flight = exchange.flight, None
    if flight is not None:
        gateway.flights.land(flight, None, 0)


def _follow(exchange: Exchange, gateway: Gateway, flight_wait: FlightWait) -> Admission | None:
    """Wait for another request's answer; None once this one is subscribed to its stream."""
    write_start(exchange, gateway, calls_provider=False)
    release_reservations(exchange, gateway)
    seconds = settings.GATEWAY_HEARTBEAT if _accepts_heartbeats(exchange) else math.inf
    try:
        with gateway.watcher.watching(exchange.call):
            value = gateway.flights.follow(exchange.cache_key, exchange.call, seconds, flight_wait.flight)
    except FlightPending as pending:
        exchange.flight_wait = FlightWait(flight_wait.token, pending.flight)
        raise
    if isinstance(value, Subscription):
        exchange.subscription, exchange.target = value, exchange.remaining[0]
        exchange.cache_status, exchange.dropped = "HIT", value.broadcast.dropped
        return None
    if value is not None:
        return Admission([], value=value)
    return admit(exchange, gateway, exchange.cache_key, flight_wait.token, read=True)


def _accepts_heartbeats(exchange: Exchange) -> bool:
    """Whether its answer will be a stream of events, which may begin with a comment before the answer is known."""
    request, target_format = exchange.request, exchange.remaining[0].provider.format
    assert request is not None
    assert target_format is not None, "a provider without a format is no candidate"
    return request.stream and (exchange.endpoint.door.in_shape or target_format.is_stream("text/event-stream"))


def _use_cached(exchange: Exchange, value: bytes, target: Target) -> bool:
    stored = unpack(value)
    if stored is None:
        return False
    use_answer(exchange, stored)
    exchange.target = target
    exchange.cache_status = "HIT"
    return True


def use_answer(exchange: Exchange, stored: CachedAnswer) -> None:
    """Make an answer that another request got the answer of this one."""
    exchange.cached_answer = stored
    exchange.dropped = stored.dropped
    exchange.answer = Answer(
        stored.body,
        stored.content_type,
        usage=_usage_from(stored.usage),
        finish_reason=stored.finish_reason,
        provider_finish_reason=stored.provider_finish_reason,
    )


def _cache_seconds(exchange: Exchange, target: Target) -> int:
    request = exchange.request
    assert request is not None
    if request.operation == COUNT_TOKENS:  # costs nothing, and may be an estimate
        return 0
    if request.stateful_parameter:  # a conversation kept by the provider is not shared
        return 0
    limit = target.provider.cache_seconds
    return limit if exchange.cache_seconds is None else min(exchange.cache_seconds, limit)


def _usage_list(usage: Usage | None) -> list[int | None] | None:
    if usage is None:
        return None
    return [usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning]


def _usage_from(counts: list[int | None] | None) -> Usage | None:
    """The usage in a cached answer: the counts of _usage_list()."""
    if counts is None:
        return None
    tokens_in, cache_read, cache_write, tokens_out, reasoning = counts
    return Usage(tokens_in, cache_read, cache_write, tokens_out, reasoning)
