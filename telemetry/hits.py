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
        self._waiting: list[tuple[float, Mapping[str, int]]] = []

    def note(self, hits: Mapping[str, int]) -> None:
        """These were hit, by their hashes, and are not listed yet."""
        if hits:
            self._waiting.append((time.monotonic(), hits))

    def count(self) -> None:
        """Add those to their answers that are listed by now."""
        for place in [*self._waiting]:
            noted, hits = place
            with transaction.atomic():
                missing = add_hits(hits)
            self._waiting.remove(place)
            if missing and time.monotonic() - noted < PATIENCE_SECONDS:
                self._waiting.append((noted, missing))
