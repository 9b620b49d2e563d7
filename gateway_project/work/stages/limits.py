"""Part of stage 1, but after stage 4, on which the limits depend: is there room in the limits? Take from them."""

from gateway_project.errors import LimitError
from gateway_project.work.cache.lookup import choose_key
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.rests import error_of_sooner_rest
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.admission import admit_and_look_up, exclude_unaccountable


def reserve_limits(exchange: Exchange, gateway: Gateway) -> None:
    """Check all limits and take from them; the same round trip looks for a cached answer, for look_up_cache().

    Raises RateLimited, QuotaExceeded, ActiveUseLimitReached and ValidationError; then nothing was taken.
    """
    choose_key(exchange)
    exclude_unaccountable(exchange, gateway)
    try:
        admit_and_look_up(exchange, gateway)
    except LimitError as full:
        raise error_of_sooner_rest(full, exchange, gateway) from None
