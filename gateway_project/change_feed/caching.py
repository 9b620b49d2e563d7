"""Results that are computed from the configuration, and again only after that has changed."""

import time
from collections.abc import Callable, Collection
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from django.db import connection

from gateway_project.change_feed.feed import ChangeFeed, Position

Result = TypeVar("Result")
MAX_AGE_SECONDS = 60  # an expiry of a key is no change in the feed


class Stored(NamedTuple, Generic[Result]):
    """A result, when it was computed, and how far the change feed has been read since then."""

    result: Result
    moment: float
    position: Position


class ConfigurationCache(Generic[Result]):
    """One result of this process.

    Each call within a transaction computes its own: the transaction may have changed what nobody else sees yet.
    """

    def __init__(self, compute: Callable[[], Result], kinds: Collection[str]) -> None:
        """`kinds` are those of the change feed that the result depends on."""
        self._compute, self._kinds = compute, frozenset(kinds)
        self._lock = Lock()
        self._stored: Stored[Result] | None = None

    def get(self) -> Result:
        """The result for the configuration as it is stored now."""
        if connection.in_atomic_block:
            return self._compute()
        with self._lock:  # calls at the same time share one computation
            self._stored = self._reuse_stored() or self._compute_anew()
            return self._stored.result

    def _reuse_stored(self) -> Stored[Result] | None:
        if self._stored is None or time.monotonic() - self._stored.moment > MAX_AGE_SECONDS:
            return None
        changes, position = ChangeFeed(connection).read_since(self._stored.position)
        return None if self._kinds & changes.keys() else self._stored._replace(position=position)

    def _compute_anew(self) -> Stored[Result]:
        position = ChangeFeed(connection).position()  # before it, so that no change is missed
        return Stored(self._compute(), time.monotonic(), position)
