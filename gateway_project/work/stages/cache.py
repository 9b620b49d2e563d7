"""Stages 5 and 8: a stored answer ends the walk to the provider; a new one is stored."""

import math

from django.conf import settings

from gateway_project.errors import CacheMiss, GatewayError, LimitError, UpstreamError
from gateway_project.work.bill import Bill, bill_of
from gateway_project.work.cache_key import cache_key
from gateway_project.work.cached_answer import pack, unpack
from gateway_project.work.candidate_outcomes import note_outcome
from gateway_project.work.exchange import Exchange, Stored
from gateway_project.work.flights import FlightPending, Following
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits import NOTHING_HELD, Admission
from gateway_project.work.snapshot import Target
from gateway_project.work.stages.admission import admit, hold_back, let_go, of_caller, settle, settlement_of
from gateway_project.work.stages.log import cache_record, write_start
from providers.calls import End
from providers.formats import Answer, Usage
from providers.formats.base import COUNT_TOKENS
from telemetry.models import Candidate
from telemetry.records import to_record

UNFINISHED = ("error", "pause")  # how an answer ends that is none yet: asked again, the model may well give one


def look_up_cache(exchange: Exchange, gateway: Gateway) -> None:
    """Count the request against its limits, and set a stored answer of the next candidate where there is one.

    Of identical requests without one, the first goes on and the others wait here for its answer. Where that one meets
    what another candidate may do better, they too are done with the candidate, and the next one's answer is looked up.
    Raises RateLimited, CacheMiss where only a stored answer was wanted, or what the first one met; FlightPending where
    the client of a stream needs a sign of life: then this is called again.
    """
    while True:
        try:
            return _look_up(exchange, gateway)
        except UpstreamError as error:
            exchange.failure = error
            if not error.allows_failover:
                raise
            note_outcome(exchange, exchange.left[0], Candidate.FAILED, error)
            pass_on(exchange, gateway, error)
        except LimitError as full:
            if exchange.failure is None:
                raise
            note_outcome(exchange, exchange.left[0], Candidate.FULL, full)
            exchange.limit_statuses = of_caller(exchange.limit_statuses)
            break
    raise exchange.failure


def pass_on(exchange: Exchange, gateway: Gateway, error: UpstreamError | None) -> None:
    """Be done with a candidate, and tell those who wait for its answer why; what it came to goes back to its limits.

    Without an error they find out for themselves. Raises what the candidates met where none is left.
    """
    if len(exchange.left) == 1:
        raise exchange.failure
    given_back = let_go(exchange, gateway) if exchange.admitted is exchange.left[0] else NOTHING_HELD
    flight, exchange.flight = exchange.flight, None
    if flight is not None:
        gateway.flights.land(flight, None, 0, error, settlement=given_back)
    elif given_back.holds:
        gateway.state.settle(given_back)
    exchange.tried += 1
    exchange.target, exchange.cache_key = None, ""


def _look_up(exchange: Exchange, gateway: Gateway) -> None:
    target = exchange.left[0]
    if exchange.following is not None:
        following, exchange.following = exchange.following, None
        _use(exchange, gateway, target, _follow(exchange, gateway, following), following.token)
        return
    asks = exchange.cache_control != "only"
    if exchange.cache_control == "bypass" or not _cache_seconds(exchange, target):
        admit(exchange, gateway, asks=asks)
        if not asks:
            raise CacheMiss
        return
    exchange.cache_key = key_of(exchange, target)
    exchange.cache_status = "MISS"
    if exchange.cache_control == "refresh":
        admit(exchange, gateway)
        return
    token = (exchange.token or gateway.flights.token()) if asks else ""
    _use(exchange, gateway, target, admit(exchange, gateway, exchange.cache_key, token, reads=True, asks=asks), token)


def _use(exchange: Exchange, gateway: Gateway, target: Target, admission: Admission, token: str) -> None:
    """Take the answer that was found, lead, or wait for the one who does; without a token only take."""
    while True:
        if admission.value is not None:
            if not _take(exchange, admission.value, target):
                break  # somebody else wrote it: nobody leads, and the next good answer takes its place
            return
        if admission.leads:
            exchange.flight = gateway.flights.lead(exchange.cache_key, token)
            return
        if not token:
            break
        admission = _follow(exchange, gateway, Following(token))
    if not token:
        raise CacheMiss
    admit(exchange, gateway)  # what was held back for a stored answer


def key_of(exchange: Exchange, target: Target) -> str:
    """The cache key of a request to a provider: what is asked, of whom, and for whom it may be kept."""
    provider, request = target.provider, exchange.request
    return cache_key(
        exchange.content,
        target.model,
        provider.id,
        provider.url,
        provider.format_name,
        request.operation,
        request.dialect.name,
        request.via_door,
        sorted(request.headers.items()),
        scope_of(exchange, provider.cache_scope),
    )


def scope_of(exchange: Exchange, scope: str) -> str:
    """Whom a stored answer is shared with."""
    caller = exchange.caller
    if scope == "key" and exchange.key is not None:
        return f"key {exchange.key.id}"
    if scope in ("user", "key"):
        return f"user {caller.id}"
    if scope == "group":
        return f"groups {sorted(caller.group_ids)}" if caller.group_ids else f"user {caller.id}"
    return ""


def update_cache(exchange: Exchange, gateway: Gateway) -> None:
    """Store a whole answer, and hand it to those who wait for it."""
    if exchange.answer is None or exchange.stored is not None:
        return
    keep(exchange, gateway, exchange.answer, None)


def keep(exchange: Exchange, gateway: Gateway, answer: Answer, chunks: list[int] | None) -> None:
    """Store an answer that is complete: whole, or as the chunks of a stream that reached its end.

    One that the model itself broke off is handed to those who wait for it, and not stored.
    """
    if not exchange.cache_key:
        return
    stored = _stored(exchange, answer, chunks, bill := bill_of(exchange, gateway.snapshot))
    value = pack(stored)
    fits = len(answer.body) <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES
    seconds = _cache_seconds(exchange, exchange.target) if fits and answer.finish_reason not in UNFINISHED else 0
    _keep_for_all(exchange, gateway, value, seconds)
    if seconds > 0:
        gateway.note_cached(to_record(cache_record(exchange, stored, seconds, bill.cost)))


def _keep_for_all(exchange: Exchange, gateway: Gateway, value: bytes, seconds: int) -> None:
    """Those who wait get it even where it is not kept."""
    if exchange.flight is None and seconds <= 0:
        return
    settlement = settlement_of(exchange, gateway)
    flight, exchange.flight = exchange.flight, None
    if flight is not None:
        gateway.flights.land(flight, value, seconds, settlement=settlement)
    else:
        gateway.state.store(exchange.cache_key, value, seconds, "", settlement)


def _stored(exchange: Exchange, answer: Answer, chunks: list[int] | None, bill: Bill) -> Stored:
    return Stored(
        answer.body,
        answer.content_type,
        chunks,
        exchange.target.provider.id,
        exchange.target.provider.name,
        _usage_list(bill.usage),
        bill.estimated,
        answer.finish_reason,
        answer.provider_finish_reason,
        exchange.dropped,
    )


def give_up_flight(exchange: Exchange, gateway: Gateway, error: GatewayError | None) -> None:
    """Let those who wait know that no answer comes: they get what the provider did, or one of them takes over.

    What befell this request alone, its own deadline or its client's leaving, is nothing to the others. What it held
    is settled, in the same round trip where there is one.
    """
    if exchange.flight is None:
        settle(exchange, gateway)
        return
    shared = isinstance(error, UpstreamError) and exchange.call.end is not End.TOTAL
    settlement = settlement_of(exchange, gateway)
    flight, exchange.flight = exchange.flight, None
    gateway.flights.land(flight, None, 0, error if shared else None, settlement=settlement)


def let_others_go(exchange: Exchange, gateway: Gateway) -> None:
    """Those who wait for this answer wait no longer: one of them asks for itself. This request goes on alone."""
    flight, exchange.flight = exchange.flight, None
    if flight is not None:
        gateway.flights.land(flight, None, 0)


def _follow(exchange: Exchange, gateway: Gateway, following: Following) -> Admission:
    write_start(exchange, gateway, asks=False)
    hold_back(exchange, gateway)
    seconds = settings.GATEWAY_HEARTBEAT if _can_be_told_to_wait(exchange) else math.inf
    try:
        with gateway.watcher.watching(exchange.call):
            value = gateway.flights.follow(exchange.cache_key, exchange.call, seconds, following.flight)
    except FlightPending as still:
        exchange.following = Following(following.token, still.flight)
        raise
    if value is not None:
        return Admission([], value=value)
    return admit(exchange, gateway, exchange.cache_key, following.token, reads=True)


def _can_be_told_to_wait(exchange: Exchange) -> bool:
    """Whether its answer is a stream of events, in which a comment may stand before anything else is known."""
    events = exchange.entrance.door.in_shape or exchange.left[0].provider.format.is_stream("text/event-stream")
    return exchange.request.stream and events


def _take(exchange: Exchange, value: bytes, target: Target) -> bool:
    stored = unpack(value)
    if stored is None:
        return False
    usage = Usage(*stored.usage) if stored.usage is not None else None
    exchange.stored = stored
    exchange.dropped = stored.dropped
    exchange.target = target
    exchange.cache_status = "HIT"
    exchange.answer = Answer(
        stored.body,
        stored.content_type,
        usage=usage,
        finish_reason=stored.finish_reason,
        provider_finish_reason=stored.provider_finish_reason,
    )
    return True


def _cache_seconds(exchange: Exchange, target: Target) -> int:
    if exchange.request.operation == COUNT_TOKENS:  # it costs nothing, and may be an estimate
        return 0
    if (
        exchange.request.stateful_parameter
    ):  # one conversation, which goes on with each answer, is not for several to share
        return 0
    most = target.provider.cache_seconds
    return most if exchange.cache_seconds is None else min(exchange.cache_seconds, most)


def _usage_list(usage: Usage | None) -> list[int | None] | None:
    if usage is None:
        return None
    return [usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning]
