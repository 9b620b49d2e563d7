"""Throttles password guessing without locking anybody else out.

Failures count per account and address, and with a higher limit per address over all accounts, in windows of fifteen
minutes that begin with the first failure. An IPv6 address counts as its /64 network, all of which one client has.
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

from gateway_project.database.names import name_key
from gateway_project.errors import AuthenticationFailed, RateLimited
from gateway_project.server.proxies import read_address

log = logging.getLogger("gateway.login")

WINDOW_SECONDS = 15 * 60
T = TypeVar("T")


@contextmanager
def guess(username: str, address: str, *, on_first_refusal: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Around one password check: AuthenticationFailed counts as a failure. Raises RateLimited instead of checking.

    Each check is counted before it is made, so that concurrent guesses count too. `on_first_refusal` is called once a
    window: further guesses must not fill the log.
    """
    account, origin = name_key(username), _origin(address)
    store = _store()
    by_account = FailureCounter(store, settings.GATEWAY_LOGIN_FAILURES, "account", account, origin)
    by_address = FailureCounter(store, settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS, "address", origin)
    with by_address.counted(on_first_refusal), by_account.counted(on_first_refusal):
        yield
    by_account.reset()
    by_address.decrement()


class FailureCounter:
    """Counts failures in a window against a limit, in the shared cache, or in this process alone while that fails."""

    def __init__(self, store: BaseCache, limit: int, *names: str) -> None:
        # Hashed: names are of any length and may contain characters that cache keys must not have.
        self.name = "login:" + hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()
        self.store, self.limit = store, limit
        self._run(self._find_window)

    @contextmanager
    def counted(self, on_first_refusal: Callable[[], None]) -> Iterator[None]:
        """Count one more; it is taken back if the block raises anything but AuthenticationFailed."""
        self.add(on_first_refusal)
        try:
            yield
        except AuthenticationFailed:
            raise
        except BaseException:  # the password was not checked: no guess
            self.decrement()
            raise

    def add(self, on_first_refusal: Callable[[], None]) -> None:
        """Count one more; raises RateLimited, counting nothing, beyond the limit."""
        if self._run(self._increment) > self.limit:
            self.decrement()
            if self._run(lambda: self.store.add(f"{self.key}:told", 1, WINDOW_SECONDS)):
                on_first_refusal()
            wait = min(max(1, self.ends - time.time()), WINDOW_SECONDS)
            raise RateLimited("Too many failed logins; try again later.", retry_after=wait)

    def decrement(self) -> None:
        with suppress(ValueError):  # the key may have expired or been evicted
            self._run(lambda: self.store.decr(self.key))

    def reset(self) -> None:
        self._run(lambda: self.store.delete(self.key))

    def _run(self, operation: Callable[[], T]) -> T:
        """The result of an operation on the store; a shared cache that fails is replaced by the process's own."""
        try:
            return operation()
        except Exception as error:  # it is down, full or read-only, or holds a foreign value
            if self.store is caches["process"] or _is_missing_key(error):
                raise
            _warn(error)
        self.store = caches["process"]
        self._find_window()
        return operation()

    def _find_window(self) -> None:
        ends = self.store.get_or_set(self.name, int(time.time()) + WINDOW_SECONDS, WINDOW_SECONDS)
        self.ends = _checked_int(ends)
        self.key = f"{self.name}:{ends}"

    def _increment(self) -> int:
        self.store.add(self.key, 0, WINDOW_SECONDS)
        try:
            return _checked_int(self.store.incr(self.key))
        except ValueError:  # the key was evicted in between
            self.store.set(self.key, 1, WINDOW_SECONDS)
            return 1


def _origin(address: str) -> str:
    read = read_address(address.partition("%")[0])
    if not read:  # a Unix socket has none
        return address
    return str(ip_network((read, 64), strict=False)) if ":" in read else read


def _checked_int(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} in the place of a number")
    return value


def _is_missing_key(error: Exception) -> bool:
    """Whether the error is Django's ValueError for incr() and decr() of a missing key."""
    return type(error) is ValueError


def _store() -> BaseCache:
    """The cache that all processes share; this process's own while that one is down."""
    try:
        caches["default"].get("login")
    except Exception as error:  # of any kind: logins go on without the shared cache
        _warn(error)
        return caches["process"]
    return caches["default"]


def _warn(error: Exception) -> None:
    log.warning("The shared cache fails (%s): failed logins are counted by each process.", type(error).__name__)
