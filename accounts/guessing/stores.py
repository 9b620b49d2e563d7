"""Where failed logins are counted: in Redis, which all processes share, or in this process.

Somebody can make up more names than a process has room for. A full table forgets its lowest counts. An attacker cannot
push out a high count with higher ones, because each failure costs a hash.
"""

import logging
import threading
import time
from collections import defaultdict
from typing import Any, NamedTuple, Protocol, cast

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

log = logging.getLogger("gateway.login")

KEPT_SHARE = 7 / 8  # of a full table


class Store(Protocol):
    """What the throttle needs of a cache. The caches of Django and django-redis behave like this."""

    def add(self, key: str, value: int, timeout: float) -> bool: ...

    def get(self, key: str) -> object: ...

    def incr(self, key: str) -> int: ...

    def decr(self, key: str) -> int: ...

    def delete(self, key: str) -> bool: ...

    def ttl(self, key: str) -> int | None:
        """The remaining seconds of a key; 0 if it does not exist."""


class Stores(NamedTuple):
    """Counts of failures, and times: when the turn of a login begins, or when an event was first seen."""

    counts: Store
    times: Store


class Table:
    """Numbers by key, with the time at which each ends, by the monotonic clock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.numbers: dict[str, int] = {}
        self.ends: dict[str, float] = {}

    def find(self, key: str) -> int | None:
        if key in self.ends and self.ends[key] <= time.monotonic():
            self.remove(key)
        return self.numbers.get(key)

    def remove(self, key: str) -> bool:
        self.ends.pop(key, None)
        return self.numbers.pop(key, None) is not None

    def make_room(self, capacity: int) -> None:
        """If the table is full, remove the numbers that have ended, then the lowest."""
        if len(self.numbers) < capacity:
            return
        now = time.monotonic()
        for key in [key for key, end in self.ends.items() if end <= now]:
            self.remove(key)
        excess = len(self.numbers) - int(capacity * KEPT_SHARE)
        if excess > 0:
            for key in sorted(self.numbers, key=lambda key: (self.numbers[key], self.ends[key]))[:excess]:
                self.remove(key)


_tables: defaultdict[str, Table] = defaultdict(Table)  # by name: Django makes a backend for each thread


class ProcessStore(BaseCache):
    """Django's cache of numbers in this process. It forgets the lowest numbers first, and a number that falls to 0."""

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._table = _tables[name]
        self._capacity = int(params["OPTIONS"]["MAX_ENTRIES"])

    def add(self, key: str, value: int, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        key = self.make_key(key, version)
        with self._table.lock:
            if self._table.find(key) is not None:
                return False
            self._table.make_room(self._capacity)
            self._table.numbers[key], self._table.ends[key] = value, time.monotonic() + timeout
            return True

    def get(self, key: str, default: object = None, version: int | None = None) -> object:
        with self._table.lock:
            number = self._table.find(self.make_key(key, version))
        return default if number is None else number

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        key = self.make_key(key, version)
        with self._table.lock:
            number = self._table.find(key)
            if number is None:
                raise ValueError(f"Key '{key}' not found")
            self._table.numbers[key] = number + delta
            if number + delta <= 0:
                self._table.remove(key)
            return number + delta

    def delete(self, key: str, version: int | None = None) -> bool:
        with self._table.lock:
            return self._table.remove(self.make_key(key, version))

    def ttl(self, key: str, version: int | None = None) -> int:
        key = self.make_key(key, version)
        with self._table.lock:
            return round(self._table.ends[key] - time.monotonic()) if self._table.find(key) is not None else 0

    def clear(self) -> None:
        with self._table.lock:
            self._table.numbers.clear()
            self._table.ends.clear()


def current_stores() -> Stores:
    """The stores that all processes share; this process's own without Redis, and while Redis is down."""
    if not settings.REDIS_URL:
        return process_stores()
    try:
        caches["default"].get("login")
    except Exception as error:  # of any kind: logins go on without the shared cache
        warn_about_store(error)
        return process_stores()
    shared = cast("Store", caches["default"])
    return Stores(shared, shared)


def process_stores() -> Stores:
    return Stores(cast("Store", caches["login-counts"]), cast("Store", caches["login-times"]))


def warn_about_store(error: Exception) -> None:
    log.warning("The shared cache fails (%s): each process counts failed logins by itself.", type(error).__name__)
