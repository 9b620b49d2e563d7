"""Cache hits that were shipped before the record of their answer, which another process may ship later."""

import time
from collections.abc import Mapping

from django.db import transaction

from telemetry.journal.batches import add_hits

# By then all processes have shipped their records. An answer that only concurrent requests shared never has a record.
MAX_WAIT_SECONDS = 10.0


class PendingHits:
    """The pending hits of this process. They are in memory, and lost when the process dies."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, float]] = {}  # by hash: number, first seen (monotonic)

    def add(self, hits: Mapping[str, int]) -> None:
        """Keep hits, by the hash of their answer, until its cache entry exists."""
        for request_hash, number in hits.items():
            before, since = self._waiting.get(request_hash, (0, time.monotonic()))
            self._waiting[request_hash] = before + number, since

    def flush(self) -> None:
        """Add hits to the cache entries that exist now, in one transaction. Forget hits that have waited too long."""
        if not self._waiting:
            return
        with transaction.atomic():
            missing = add_hits({request_hash: number for request_hash, (number, _) in self._waiting.items()})
        limit = time.monotonic() - MAX_WAIT_SECONDS
        self._waiting = {
            request_hash: waiting
            for request_hash, waiting in self._waiting.items()
            if request_hash in missing and waiting[1] > limit
        }
