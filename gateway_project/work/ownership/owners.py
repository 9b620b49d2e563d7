"""The owners of state that providers store under the gateway's account: responses, items, conversations, containers.

They are found in three places. This process has those that it has noted itself. The shared state has those that any
process has noted in the last minutes: a thread writes them there, so that no request waits. The database has the rest:
the journal writes them there, and the snapshot's follower reads them.
"""

import logging
import threading
from collections.abc import Collection, Iterable
from hashlib import blake2b

from gateway_project.background import BackgroundThread
from gateway_project.work.snapshot.follower import Follower
from gateway_project.work.state.shared import SharedState

log = logging.getLogger("gateway.owners")

RETRY_SECONDS = 1.0
MAX_BATCH = 500
MAX_UNPUBLISHED = 50_000  # while Redis is down; the journal writes them to the database


def digest_of(identifier: str) -> str:
    """The digest that stands for an id: nobody who reads it in Redis or in the database can use it.

    It does not contain the provider: two providers of the gateway may be the same account.
    """
    return blake2b(identifier.encode(), digest_size=16).hexdigest()


class Owners(BackgroundThread):
    """Finds owners, and publishes in the background those that this process has noted."""

    stop_seconds = 2.0

    def __init__(self, state: SharedState, follower: Follower) -> None:
        super().__init__("owners", log, every=RETRY_SECONDS)
        self._state = state
        self._follower = follower
        self._lock = threading.Lock()
        self._unpublished: dict[str, int] = {}

    @property
    def may_lack_recent(self) -> bool:
        """Whether owners that other processes have noted cannot be found now."""
        return self._state.degraded

    def note(self, digests: Iterable[str], user_id: int) -> None:
        """Note the owner of ids that a provider has created."""
        with self._lock:
            for digest in digests:
                self._unpublished.setdefault(digest, user_id)
        self.wake()

    def find(self, digests: Collection[str]) -> dict[str, int]:
        """The user ids of the owners by digest. Raises ServiceUnavailable if the database cannot be read."""
        owners = self.find_recent(digests)
        if missing := [digest for digest in digests if digest not in owners]:
            owners |= self._follower.state_owners(missing)
        return owners

    def find_recent(self, digests: Collection[str]) -> dict[str, int]:
        """The same without the database."""
        with self._lock:
            owners = {digest: self._unpublished[digest] for digest in digests if digest in self._unpublished}
        if missing := [digest for digest in digests if digest not in owners]:
            owners |= self._state.owners(missing) or {}
        return owners

    def claim(self, digests: Iterable[str], user_id: int) -> dict[str, int] | None:
        """Make the user the owner of those without one. Returns all owners by digest, or None if that failed."""
        return self._state.claim_owners(dict.fromkeys(digests, user_id))

    def pause(self) -> float | None:
        return self.every if self._unpublished else None

    def run_once(self) -> None:
        """Publish the owners that were noted. If Redis fails, they are published later."""
        while batch := self._batch():
            if self._state.claim_owners(batch) is None:
                self._drop_excess()
                return
            with self._lock:
                for digest in batch:
                    del self._unpublished[digest]

    def run_last(self) -> None:
        self.run_once()

    def _batch(self) -> dict[str, int]:
        with self._lock:
            return dict(list(self._unpublished.items())[:MAX_BATCH])

    def _drop_excess(self) -> None:
        with self._lock:
            for digest in list(self._unpublished)[: max(len(self._unpublished) - MAX_UNPUBLISHED, 0)]:
                del self._unpublished[digest]
