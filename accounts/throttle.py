"""Slows down whoever guesses passwords, and nobody else.

Failures count for account and address together, and with a higher limit for an address over all accounts, in
windows of fifteen minutes that begin with the first failure. Of IPv6 addresses the network of 64 bits counts: who
has one of them has them all.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address, ip_network

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache

from gateway_project.errors import AuthenticationFailed, RateLimited
from gateway_project.naming import name_key

log = logging.getLogger("gateway.login")

WINDOW_SECONDS = 15 * 60


@contextmanager
def guess(username: str, address: str, *, on_first_refusal: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Around one look at a password: AuthenticationFailed is a failure. Raises RateLimited instead of looking.

    Each look counts before it is made, so that guesses at the same moment do not all pass for the first. Of the
    refusals in one window the first is told: who goes on guessing must not fill the log.
    """
    account, origin = name_key(username), _origin(address)
    store = _store()
    pair = Counter(store, settings.GATEWAY_LOGIN_FAILURES, "account", account, origin)
    whole = Counter(store, settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS, "address", origin)
    with whole.counted(on_first_refusal), pair.counted(on_first_refusal):
        yield
    pair.forget()
    whole.take_back()


class Counter:
    """Counts something that may fail so often in a window."""

    def __init__(self, store: BaseCache, most: int, *names: str) -> None:
        # Hashed: names are of any length and may hold what a cache takes for syntax.
        name = "login:" + hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()
        self.store, self.most = store, most
        self.ends = store.get_or_set(name, int(time.time()) + WINDOW_SECONDS, WINDOW_SECONDS)
        self.key = f"{name}:{self.ends}"

    @contextmanager
    def counted(self, on_first_refusal: Callable[[], None]) -> Iterator[None]:
        """Inside, one more is counted, and stays so if it ends in AuthenticationFailed or well."""
        self.add(on_first_refusal)
        try:
            yield
        except AuthenticationFailed:
            raise
        except BaseException:  # nobody looked at the password: it was no guess
            self.take_back()
            raise

    def add(self, on_first_refusal: Callable[[], None]) -> None:
        """Count one more; raises RateLimited, and counts none, where it would be too many."""
        if self._more() > self.most:
            self.take_back()
            if self.store.add(f"{self.key}:told", 1, WINDOW_SECONDS):
                on_first_refusal()
            wait = max(1, self.ends - time.time())
            raise RateLimited("Too many failed logins; try again later.", retry_after=wait)

    def take_back(self) -> None:
        with suppress(ValueError):  # a cache may forget
            self.store.decr(self.key)

    def _more(self) -> int:
        self.store.add(self.key, 0, WINDOW_SECONDS)
        try:
            return self.store.incr(self.key)
        except ValueError:  # it was flushed just now
            self.store.set(self.key, 1, WINDOW_SECONDS)
            return 1

    def forget(self) -> None:
        self.store.delete(self.key)


def _origin(address: str) -> str:
    try:
        read = ip_address(address.partition("%")[0])
    except ValueError:  # a socket of the machine's own has none
        return address
    return str(read) if read.version == 4 else str(ip_network((read, 64), strict=False))


def _store() -> BaseCache:
    """The cache that all processes share; this process's own while that one is away."""
    try:
        caches["default"].get("login")
    except Exception:  # whatever the cache's library raises: logins go on without it
        log.warning("The shared cache is away: failed logins are counted by each process.")
        return caches["process"]
    return caches["default"]
