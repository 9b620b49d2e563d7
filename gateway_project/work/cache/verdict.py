"""The result of the cache lookup of a request, in a word."""

from gateway_project.work.exchange import Exchange
from telemetry.journal.decisions import CACHE_OFF

HIT, MISS, IN_FLIGHT, REFRESH, BYPASS, OFF = "hit", "miss", "in flight", "refresh", "bypass", CACHE_OFF
VERDICTS = (HIT, MISS, IN_FLIGHT, REFRESH, BYPASS, OFF)


def verdict_of(exchange: Exchange) -> str:
    """The result of the lookup; `off` also if the request did not come so far."""
    control, cache = exchange.options.cache_control, exchange.cache
    if control == BYPASS:
        return BYPASS
    if cache.subscription is not None:
        return IN_FLIGHT
    if cache.hit is not None:
        return HIT
    if not cache.key:
        return OFF
    return REFRESH if control == REFRESH else MISS
