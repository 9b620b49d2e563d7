"""How many management requests compute at once: each of them takes the interpreter from work."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

# The member of a request's environ with the function that ends its turn, for one that is about to wait.
END_TURN = "gateway.end_turn"
# Seconds after which a thread that computes lets another one compute: while there is a turn, and otherwise.
BRIEF_SWITCHES, USUAL_SWITCHES = 0.0005, sys.getswitchinterval()


class Turns:
    """At most `total` turns at once. A turn ends after `seconds` at the latest: a view may wait for a provider."""

    def __init__(self, total: int, seconds: float) -> None:
        self._total, self._seconds = total, seconds
        self._ends: dict[object, float] = {}  # when each turn ends; the first ends first
        self._changed = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[Callable[[], None]]:
        """Wait for a turn and have it within this block; yields what ends it sooner."""
        end = partial(self._end, key := object())
        with self._changed:
            while (seconds := self._seconds_to_wait()) > 0:
                self._changed.wait(seconds)
            self._ends[key] = monotonic() + self._seconds
            sys.setswitchinterval(BRIEF_SWITCHES)
        try:
            yield end
        finally:
            end()

    def _seconds_to_wait(self) -> float:
        """How long no turn is free; turns whose time is up end here."""
        now = monotonic()
        for key in [key for key, end in self._ends.items() if end <= now]:
            del self._ends[key]
        return next(iter(self._ends.values())) - now if len(self._ends) >= self._total else 0.0

    def _end(self, key: object) -> None:
        with self._changed:
            if self._ends.pop(key, None):
                self._changed.notify()
            if not self._ends:
                sys.setswitchinterval(USUAL_SWITCHES)
