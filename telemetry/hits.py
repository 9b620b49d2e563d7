"""Hits of stored answers that are not listed yet: the process that stored one ships its record when it likes."""

import time
from collections.abc import Mapping

from django.db import transaction

from telemetry.batches import add_hits

# Records of all processes have arrived by then; an answer that only those got who waited for it never has one.
PATIENCE_SECONDS = 10.0


class EarlyHits:
    """Those that this process has shipped; a process that dies takes them along."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, float]] = {}  # by hash: how many, and since when

    def note(self, hits: Mapping[str, int]) -> None:
        """These were hit, by their hashes, and are not listed yet."""
        for request_hash, number in hits.items():
            before, since = self._waiting.get(request_hash, (0, time.monotonic()))
            self._waiting[request_hash] = before + number, since

    def count(self) -> None:
        """Add those to their answers that are listed by now, all of them in one transaction."""
        if not self._waiting:
            return
        with transaction.atomic():
            missing = add_hits({request_hash: number for request_hash, (number, _) in self._waiting.items()})
        limit = time.monotonic() - PATIENCE_SECONDS
        self._waiting = {
            request_hash: waits
            for request_hash, waits in self._waiting.items()
            if request_hash in missing and waits[1] > limit
        }
