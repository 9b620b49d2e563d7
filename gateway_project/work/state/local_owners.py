"""Whose the things are that providers keep, for as long as the journal may not be in the database yet."""

import threading
import time
from collections.abc import Collection, Mapping

OWNER_SECONDS = 900  # for which the shared state knows an owner; the database knows it a second later


class LocalOwners:
    """The owners that one process has noted lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, tuple[int, float]] = {}  # in the order of their ends

    def find(self, digests: Collection[str]) -> dict[str, int]:
        """The user ids of those that are known."""
        now = time.monotonic()
        with self._lock:
            entries = {digest: self._owners[digest] for digest in digests if digest in self._owners}
        return {digest: user_id for digest, (user_id, until) in entries.items() if until > now}

    def claim(self, claims: Mapping[str, int]) -> dict[str, int]:
        """Record an owner for each thing that has none; returns the owner of each."""
        now = time.monotonic()
        with self._lock:
            for digest, user_id in claims.items():
                if self._owners.get(digest, (0, 0.0))[1] <= now:
                    self._owners.pop(digest, None)
                    self._owners[digest] = user_id, now + OWNER_SECONDS
            return {digest: self._owners[digest][0] for digest in claims}

    def tidy(self) -> None:
        """Forget those whose time is over."""
        now = time.monotonic()
        with self._lock:
            while self._owners and next(iter(self._owners.values()))[1] <= now:
                del self._owners[next(iter(self._owners))]
