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
from ipaddress import ip_network
from typing import TypeVar

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache

from gateway_project.errors import AuthenticationFailed, RateLimited
from gateway_project.naming import name_key
from gateway_project.proxies import read_address

log = logging.getLogger("gateway.login")

WINDOW_SECONDS = 15 * 60
T = TypeVar("T")


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
    """Counts something that may fail so often in a window; where the shared cache fails, in this process alone."""

    def __init__(self, store: BaseCache, most: int, *names: str) -> None:
        # Hashed: names are of any length and may hold what a cache takes for syntax.
        self.name = "login:" + hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()
        self.store, self.most = store, most
        self._done(self._find_window)

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
        if self._done(self._more) > self.most:
            self.take_back()
            if self._done(lambda: self.store.add(f"{self.key}:told", 1, WINDOW_SECONDS)):
                on_first_refusal()
            wait = min(max(1, self.ends - time.time()), WINDOW_SECONDS)
            raise RateLimited("Too many failed logins; try again later.", retry_after=wait)

    def take_back(self) -> None:
        with suppress(ValueError):  # a cache may forget
            self._done(lambda: self.store.decr(self.key))

    def forget(self) -> None:
        self._done(lambda: self.store.delete(self.key))

    def _done(self, operation: Callable[[], T]) -> T:
        """What an operation on the store gives; on one that fails it is tried no more."""
        try:
            return operation()
        except Exception as error:  # it is full, takes no writes, or holds what nobody here has written
            if self.store is caches["process"] or _is_forgotten(error):
                raise
            _warn(error)
        self.store = caches["process"]
        self._find_window()
        return operation()

    def _find_window(self) -> None:
        ends = self.store.get_or_set(self.name, int(time.time()) + WINDOW_SECONDS, WINDOW_SECONDS)
        self.ends = _number(ends)
        self.key = f"{self.name}:{ends}"

    def _more(self) -> int:
        self.store.add(self.key, 0, WINDOW_SECONDS)
        try:
            return _number(self.store.incr(self.key))
        except ValueError:  # it was flushed just now
            self.store.set(self.key, 1, WINDOW_SECONDS)
            return 1


def _origin(address: str) -> str:
    read = read_address(address.partition("%")[0])
    if not read:  # a socket of the machine's own has none
        return address
    return str(ip_network((read, 64), strict=False)) if ":" in read else read


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} in the place of a number")
    return value


def _is_forgotten(error: Exception) -> bool:
    """Whether a cache says no more than that it does not know the key."""
    return type(error) is ValueError


def _store() -> BaseCache:
    """The cache that all processes share; this process's own while that one is away."""
    try:
        caches["default"].get("login")
    except Exception as error:  # whatever the cache's library raises: logins go on without it
        _warn(error)
        return caches["process"]
    return caches["default"]


def _warn(error: Exception) -> None:
    log.warning("The shared cache fails (%s): failed logins are counted by each process.", type(error).__name__)
