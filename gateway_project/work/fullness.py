"""Which providers have no room within their limits, as this process has just been told."""

import time
from collections.abc import Sequence
from typing import TypeVar

from gateway_project.work.limits import Standing

TargetT = TypeVar("TargetT")
LONGEST_SECONDS = 5.0


class Fullness:
    """Providers to pass over while another can serve, so that identical requests meet the same one and its cache.

    What it says is a hint: whether there is room is decided when a request is admitted.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, full: Standing) -> None:
        """This limit of a provider let a request pass to another one."""
        seconds = min(full.reset_seconds, LONGEST_SECONDS)
        self._until[full.check.limit.subject.id] = time.monotonic() + seconds

    def rest(self, targets: Sequence[TargetT]) -> list[TargetT]:
        """The targets that are not known to be full; all of them where every one is."""
        if not self._until:
            return list(targets)
        now = time.monotonic()
        free = [target for target in targets if self._until.get(target.provider.id, 0) <= now]
        return free or list(targets)
