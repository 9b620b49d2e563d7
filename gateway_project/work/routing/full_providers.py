"""Providers whose limits were full a moment ago, as far as this process knows."""

import time
from collections.abc import Sequence

from gateway_project.work.limits.checks import CheckStatus
from gateway_project.work.snapshot.records import Target

MAX_SECONDS = 5.0


class FullProviders:
    """Providers to skip while another can serve, so that identical requests go to the same one and share its cache.

    This is a hint only: the admission of a request decides whether there is room.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, full: CheckStatus) -> None:
        """Remember that this limit of a provider is full, so that a request went to another provider."""
        seconds = min(full.reset_seconds, MAX_SECONDS)
        self._until[full.check.limit.subject.id] = time.monotonic() + seconds

    def without_full(self, targets: Sequence[Target]) -> list[Target]:
        """The targets that are not known to be full; all of them if every one is."""
        if not self._until:
            return list(targets)
        now = time.monotonic()
        free = [target for target in targets if self._until.get(target.provider.id, 0) <= now]
        return free or list(targets)
