"""How many requests a process may send a second time."""

import threading

WHOLE = 100  # percent: one retry
MAX_SAVED = 10 * WHOLE  # what a quiet hour has earned must not become a storm


class RetryBudget:
    """Each request earns some percent of a retry, so that retries never add more than that to the calls."""

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._lock = threading.Lock()
        self._requests = self._counted = self._saved = 0

    def note_request(self) -> None:
        """A request arrived; two threads that note one at the same moment may earn for one only."""
        self._requests += 1

    def take(self) -> bool:
        """Whether one retry is left; it is taken then."""
        with self._lock:
            requests = self._requests
            self._saved = min(self._saved + (requests - self._counted) * self._percent, MAX_SAVED)
            self._counted = requests
            if self._saved < WHOLE:
                return False
            self._saved -= WHOLE
            return True
