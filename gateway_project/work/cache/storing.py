"""A new answer is cached, and shared with the identical requests that wait for it."""

from django.conf import settings

from gateway_project.errors import GatewayError, UpstreamError
from gateway_project.work.bill import Bill
from gateway_project.work.billing import bill_of
from gateway_project.work.cache.lookup import cache_seconds
from gateway_project.work.cache.packing import CachedAnswer, pack_answer
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.checks import NOTHING_HELD
from gateway_project.work.limits.settlement import final_settlement, provider_settlement, settle_reservations
from gateway_project.work.log.entry import cache_record
from providers.formats import ClientResponse
from providers.formats.usage import COUNTS
from providers.transport.calls import End
from telemetry.journal.records import to_record

UNFINISHED = ("error", "pause")  # finish reasons of answers that are not cached: the next attempt may give a whole one


def share_and_cache(
    exchange: Exchange, gateway: Gateway, answer: ClientResponse, chunk_sizes: list[int] | None
) -> None:
    """Cache a complete answer: whole, or as the chunks of a stream that reached its end.

    One that the model itself broke off is only shared with the requests that wait for it. Call wait_until_stored()
    before the answer is delivered.
    """
    if not exchange.cache.key:
        return
    target = exchange.target
    assert target is not None
    entry = cached_answer(exchange, answer, chunk_sizes, bill := bill_of(exchange, gateway.snapshot))
    fits = len(answer.body) <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES
    seconds = cache_seconds(exchange, target) if fits and answer.finish_reason not in UNFINISHED else 0
    _share(exchange, gateway, pack_answer(entry), seconds)
    if seconds > 0:
        record, exchange.cache.logged_parts = cache_record(exchange, entry, seconds, bill.cost)
        gateway.note_cached(to_record(record))


def wait_until_stored(exchange: Exchange) -> None:
    """Wait until the shared state has the answer, if it was sent one."""
    storing, exchange.cache.storing = exchange.cache.storing, None
    if storing is not None:
        storing()


def cached_answer(
    exchange: Exchange, answer: ClientResponse, chunk_sizes: list[int] | None, bill: Bill
) -> CachedAnswer:
    """An answer of this request as it is cached, and as its followers get it."""
    assert exchange.target is not None
    provider, usage = exchange.target.provider, bill.usage
    return CachedAnswer(
        answer.body,
        answer.content_type,
        chunk_sizes,
        provider.id,
        provider.name,
        usage and [*usage[:COUNTS]],  # type: ignore[list-item]  # the cost, the last field, is not among them
        bill.estimated,
        answer.finish_reason,
        answer.provider_finish_reason,
        exchange.attempts.dropped,
        exchange.attempts.added,
    )


def end_flight(exchange: Exchange, gateway: Gateway, error: GatewayError | None) -> None:
    """End the flight without an answer: followers get the provider's error, or one of them takes over.

    Errors of this request alone, its own deadline or its client's leaving, are not shared. What the request held is
    settled, in the same round trip if it leads a flight.
    """
    if exchange.cache.flight is None:
        settle_reservations(exchange, gateway)
        return
    is_shared = isinstance(error, UpstreamError) and exchange.call.end is not End.TOTAL
    settlement = final_settlement(exchange, gateway)
    flight, exchange.cache.flight = exchange.cache.flight, None
    gateway.flights.land(flight, None, 0, error if is_shared else None, settlement=settlement)


def end_candidate(exchange: Exchange, gateway: Gateway, error: UpstreamError | None, *, was_admitted: bool) -> None:
    """End the flight to one candidate, and give back what was taken of its limits if it was admitted to them.

    Followers get the error; without one they try this candidate themselves.
    """
    settlement = provider_settlement(exchange, gateway) if was_admitted else NOTHING_HELD
    flight, exchange.cache.flight = exchange.cache.flight, None
    if flight is not None:
        gateway.flights.land(flight, None, 0, error, settlement=settlement)
    elif settlement.holds:
        gateway.state.settle(settlement)
    exchange.cache.key = ""


def release_followers(exchange: Exchange, gateway: Gateway) -> None:
    """End the flight while this request goes on alone: one of the followers asks for itself."""
    flight, exchange.cache.flight = exchange.cache.flight, None
    if flight is not None:
        gateway.flights.land(flight, None, 0)


def leave_flight(exchange: Exchange, gateway: Gateway) -> None:
    """Cache nothing, and let one of the followers ask: the answer is not that of the candidate whose key this is.

    They wait no longer than a whole answer needs to be delivered; then the flight ends in the round trip of the limits.
    """
    if exchange.attempts.stream is not None:
        release_followers(exchange, gateway)
    exchange.cache.key = ""


def _share(exchange: Exchange, gateway: Gateway, value: bytes, seconds: int) -> None:
    """End the flight with the answer, also if it is not cached (seconds = 0); without a flight cache it."""
    if exchange.cache.flight is None and seconds <= 0:
        return
    settlement = final_settlement(exchange, gateway)
    flight, exchange.cache.flight = exchange.cache.flight, None
    if flight is not None:
        exchange.cache.storing = gateway.flights.land(flight, value, seconds, settlement=settlement)
    else:
        exchange.cache.storing = gateway.state.begin_storing(exchange.cache.key, value, seconds, "", settlement)
