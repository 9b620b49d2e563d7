"""The search for a cached answer; of identical requests without one, the first asks and the others wait for it."""

import math

from django.conf import settings

from gateway_project.errors import CacheMiss, UpstreamError
from gateway_project.work.cache.flights import FlightPending, FlightWait
from gateway_project.work.cache.key import cache_key
from gateway_project.work.cache.packing import CachedAnswer, unpack_answer
from gateway_project.work.cache.scopes import cache_scope_of, scope_at
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.refusals import needs_new_answer
from gateway_project.work.limits.admission import admit_request
from gateway_project.work.limits.checks import Admission
from gateway_project.work.limits.settlement import release_reservations
from gateway_project.work.log.entry import write_start
from gateway_project.work.snapshot.records import Target
from gateway_project.work.streaming.broadcast import Subscription
from providers.formats import ClientResponse, Usage
from providers.formats.dialect import COUNT_TOKENS


def choose_key(exchange: Exchange) -> None:
    """Set the cache key for the next candidate; none if the request or the provider wants no cached answer."""
    target = exchange.remaining[0]
    if exchange.options.cache_control != "bypass" and cache_seconds(exchange, target):
        exchange.cache.key, exchange.cache.status = key_of(exchange, target), "MISS"


def look_up(exchange: Exchange, gateway: Gateway) -> None:
    """Use the last admission, or go on waiting for the leader.

    If the leader fails with an error after which another candidate may serve, the error is left in the exchange; all
    others are raised. Raises CacheMiss if only a cached answer would do, and FlightPending if the client of a stream
    needs a heartbeat: then this is called again.
    """
    if (flight_wait := exchange.cache.wait) is not None:
        exchange.cache.wait = None
        _resolve(exchange, gateway, None, flight_wait)
        return
    admission, cache_control = exchange.limits.admission, exchange.options.cache_control
    assert admission is not None
    if exchange.cache.key and cache_control != "refresh":
        token = exchange.limits.token if cache_control != "only" else ""
        _resolve(exchange, gateway, admission, FlightWait(token))
    elif cache_control == "only":
        raise CacheMiss


def take_leader_error(exchange: Exchange) -> UpstreamError | None:
    """The error of the request that this one waited for, once: it is an error of the next candidate."""
    error, exchange.cache.leader_error = exchange.cache.leader_error, None
    return error


def key_of(exchange: Exchange, target: Target) -> str:
    """The cache key of a request to a provider: content, model, provider, shape and scope."""
    (provider, model), request = target, exchange.request
    assert request is not None
    return cache_key(
        exchange.selection.digest,
        model,
        provider.upstream_name(model),
        provider.id,
        provider.url,
        provider.format_name,
        request.operation,
        request.dialect.name,
        request.via_door,
        sorted(request.headers.items()),
        cache_scope_of(exchange, scope_at(request, provider)),
        *((exchange.model,) if exchange.decision.alias is not None else ()),
    )


def cache_seconds(exchange: Exchange, target: Target) -> int:
    """For how long an answer of this candidate may be cached; 0 if not at all."""
    request = exchange.request
    assert request is not None
    # A count of tokens costs nothing, and may be an estimate; a conversation kept by the provider is not shared.
    if request.operation == COUNT_TOKENS or request.stateful_parameter:
        return 0
    limit, wish = target.provider.cache_seconds, exchange.options.cache_seconds
    return limit if wish is None else min(wish, limit)


def use_answer(exchange: Exchange, hit: CachedAnswer) -> None:
    """Make an answer that another request got the answer of this one."""
    exchange.cache.hit, exchange.cache.answer = hit, _answer_in(hit)


def _answer_in(hit: CachedAnswer) -> ClientResponse:
    return ClientResponse(
        hit.body,
        hit.content_type,
        usage=_usage_from(hit.usage),
        finish_reason=hit.finish_reason,
        provider_finish_reason=hit.provider_finish_reason,
    )


def _resolve(exchange: Exchange, gateway: Gateway, admission: Admission | None, flight_wait: FlightWait) -> None:
    try:
        _use_or_follow(exchange, gateway, admission, flight_wait)
    except UpstreamError as error:
        if not exchange.falls_back_on(error):
            raise
        exchange.cache.leader_error = error


def _use_or_follow(exchange: Exchange, gateway: Gateway, admission: Admission | None, flight_wait: FlightWait) -> None:
    """Without an admission follow first; without a token only a cached answer will do."""
    token = flight_wait.token
    while True:
        if admission is None and (admission := _follow(exchange, gateway, flight_wait)) is None:
            return
        if admission.value is not None:
            if _use_cached(exchange, admission.value, may_ask=token != ""):
                return
            break  # not written by pack_answer(), or refused: no flight is led, and the next good answer replaces it
        if admission.leads:
            exchange.cache.flight = gateway.flights.lead(exchange.cache.key, token)
            return
        if not token:
            break
        admission, flight_wait = None, FlightWait(token)
    if not token:
        raise CacheMiss
    admit_request(exchange, gateway)  # take the reservations, which a cached answer would not have needed


def _follow(exchange: Exchange, gateway: Gateway, flight_wait: FlightWait) -> Admission | None:
    """Wait for another request's answer; None once this one is subscribed to its stream."""
    write_start(exchange, gateway, calls_provider=False)
    release_reservations(exchange, gateway)
    seconds = settings.GATEWAY_HEARTBEAT if _accepts_heartbeats(exchange) else math.inf
    try:
        with gateway.watcher.watch_call(exchange.call):
            value = gateway.flights.follow(exchange.cache.key, exchange.call, seconds, flight_wait.flight)
    except FlightPending as pending:
        exchange.cache.wait = FlightWait(flight_wait.token, pending.flight)
        raise
    if isinstance(value, Subscription):
        exchange.cache.subscription, exchange.cache.target = value, exchange.remaining[0]
        exchange.cache.status = "HIT"
        return None
    if value is not None:
        return Admission([], value=value)
    return admit_request(exchange, gateway, exchange.cache.key, flight_wait.token)


def _accepts_heartbeats(exchange: Exchange) -> bool:
    """Whether its answer will be a stream of events, which may begin with a comment before the answer is known."""
    request, target_format = exchange.request, exchange.remaining[0].provider.format
    assert request is not None
    assert target_format is not None, "a provider without a format is no candidate"
    return request.stream and (exchange.endpoint.door.in_shape or target_format.is_stream("text/event-stream"))


def _use_cached(exchange: Exchange, value: bytes, *, may_ask: bool) -> bool:
    hit = unpack_answer(value)
    if hit is None:
        return False
    answer = _answer_in(hit)
    if may_ask and needs_new_answer(exchange, answer):
        return False
    cache = exchange.cache
    cache.hit, cache.answer, cache.target, cache.status = hit, answer, exchange.remaining[0], "HIT"
    return True


def _usage_from(counts: list[int | None] | None) -> Usage | None:
    """The usage in a cached answer, as storing.py writes it."""
    return None if counts is None else Usage.of_counts(counts)
