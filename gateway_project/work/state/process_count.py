"""How many processes share the limits: counted while Redis answers, remembered while it does not."""

import time
from collections import deque

HEARTBEAT_SECONDS = 2.0
LAPSE_MS = 10_000  # a process that has sent no heartbeat for so long is not counted any more
MAX_PROCESSES = 10_000


class ProcessCount:
    """The number of processes, as this one has counted them, unless it was set by hand.

    The highest of the last counts holds, so that each share stays small enough while processes come and go, and while
    a Redis that was flushed or restarted hears from all of them again. Counts do not age while Redis is down.
    """

    def __init__(self, *, local: int, fixed: int = 0) -> None:
        self._least = local  # the workers of this machine: known even if Redis never answers
        self._fixed = fixed
        self._counts: deque[int] = deque(maxlen=round(60 / HEARTBEAT_SECONDS))
        self._due = 0.0

    @property
    def current(self) -> int:
        """The number by which the rest of a limit is divided."""
        return self._fixed or max(self._least, *self._counts, 1)

    def is_due(self) -> bool:
        """Whether a heartbeat is due; if so, the next one is due an interval later."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + HEARTBEAT_SECONDS
        return True

    def observe(self, reply: object) -> None:
        """Note the number that Redis replied with; any other value under the key is ignored."""
        if type(reply) is int and reply > 0:
            self._counts.append(min(reply, MAX_PROCESSES))
