"""Stages 5 and 8: a cached answer makes calling a provider unnecessary; a new answer is cached."""

from gateway_project.work.cache.lookup import look_up
from gateway_project.work.cache.storing import share_and_cache
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway


def look_up_cache(exchange: Exchange, gateway: Gateway) -> None:
    """Use the cached answer that reserve_limits() met with; else lead the flight, or wait for an identical request.

    Raises CacheMiss, the error of the identical request if no other candidate may serve, and FlightPending if the
    client of a stream needs a heartbeat.
    """
    look_up(exchange, gateway)


def store_answer(exchange: Exchange, gateway: Gateway) -> None:
    """Cache a whole answer, and share it with the requests that wait for it."""
    if exchange.answer is not None and exchange.cache.hit is None:
        share_and_cache(exchange, gateway, exchange.answer, None)
