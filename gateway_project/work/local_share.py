"""What one process may let in while Redis is away: its share of what was left when Redis was last heard of."""

from collections import defaultdict

from gateway_project.work.clock import Clock
from gateway_project.work.counters import Count
from gateway_project.work.limits import Admission, LimitCheck, Settlement
from gateway_project.work.state import LocalState


class LocalShare(LocalState):
    """The state of a process without Redis, by Redis' clock; while there is Redis it looks on."""

    def __init__(self, *, share_of: int, clock: Clock) -> None:
        super().__init__(cache_bytes=0, share_of=share_of, clock=clock)
        self._noted: dict[tuple[str, str], LimitCheck] = {}
        self._flying: dict[tuple[str, str], LimitCheck] = {}

    def look_on(self, token: str, admission: Admission, now: float) -> None:
        """Remember how the limits stand, and what this process holds, after Redis has admitted a request."""
        self._counters.know(admission.standing, now)
        if admission.holds:
            with self._lock:
                self._counters.mirror(token, admission.holds)

    def note_use(self, check: LimitCheck, token: str) -> None:
        """A use that no limit bounds has begun, or, without a token, begun and ended."""
        with self._lock:
            self._counters.uses.take(check, token, self.clock.now())
            self._noted[check.name, check.member] = check

    def notes(self, *, again: bool) -> dict[str, list[tuple[LimitCheck, bool]]]:
        """By name the uses that changed since they were last told, and whether each is in flight.

        `again`: all that are in flight, changed or not.
        """
        with self._lock:
            noted, self._noted = self._noted | (self._flying if again else {}), {}
            told = defaultdict(list)
            for key, check in noted.items():
                flies = self._counters.uses.is_in_flight(check)
                told[check.name].append((check, flies))
                if flies:
                    self._flying[key] = check
                else:
                    self._flying.pop(key, None)
            return told

    def settled(self, settlement: Settlement, *, elsewhere: bool) -> None:
        """A request has ended: what it held is free, and what it came to is counted here or in Redis."""
        if settlement.holds:
            with self._lock:
                self._counters.settle(settlement, elsewhere=elsewhere)
                for check in (hold.check for hold in settlement.holds if hold.check.is_unbounded):
                    self._noted[check.name, check.member] = check

    def hand_over(self) -> list[Count]:
        """What was counted here and Redis does not know yet; from now on it counts as known."""
        with self._lock:
            return self._counters.hand_over()

    def take_back(self, made: list[Count]) -> None:
        """Redis could not be told."""
        with self._lock:
            self._counters.take_back(made)
