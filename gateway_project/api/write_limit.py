"""How many writes a minute one user may make, by API and console together, over all processes and credentials."""

import logging
import time

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache

from gateway_project.api.access import Caller
from gateway_project.errors import RateLimited

log = logging.getLogger("gateway.management")

READS = ("GET", "HEAD", "OPTIONS")
MINUTE = 60


def count_write(caller: Caller | None, method: str) -> str:
    """Count the request if it writes; the name of its count, for take_back(), '' if it is not counted.

    Raises RateLimited beyond GATEWAY_WRITES_PER_MINUTE, counting nothing.

    Logins have no caller yet: the throttle of logins bounds them.
    """
    if caller is None:
        return ""
    return count_write_of(f"user {caller.user.get_username()}", str(caller.user.pk), method)


def count_write_of(name: str, subject: str, method: str) -> str:
    """The same for any writer: `name` is for messages, and the writes of one `subject` are counted together."""
    most = settings.GATEWAY_WRITES_PER_MINUTE
    if not most or method in READS:
        return ""
    now = time.time()
    key = f"writes:{subject}:{int(now // MINUTE)}"
    if _count(key) > most:
        take_back(key)
        raise RateLimited(
            f"The limit of {name} ({most:,} writes per minute) is used up.", retry_after=MINUTE - now % MINUTE
        )
    return key


def take_back(key: str) -> None:
    """Uncount a write that was refused."""
    if not key:
        return
    try:
        caches["default"].decr(key)
    except Exception:  # the cache is down, or the count was made by this process alone: the minute ends soon
        log.debug("A refused write stays counted.", exc_info=True)


def _count(key: str) -> int:
    """One more, in the shared cache; in this process alone while that fails."""
    try:
        return _increment(caches["default"], key)
    except Exception as error:  # it is down, full or holds a foreign value: management goes on
        log.warning("The shared cache fails (%s): each process counts writes by itself.", type(error).__name__)
        return _increment(caches["process"], key)


def _increment(store: BaseCache, key: str) -> int:
    store.add(key, 0, 2 * MINUTE)
    return int(store.incr(key))
