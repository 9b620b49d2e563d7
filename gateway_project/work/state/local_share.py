"""What one process may admit while Redis is down: its share of what was left when Redis last replied."""

from collections import defaultdict

from gateway_project.work.limits.checks import Admission, LimitCheck, Settlement
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.counters import Count
from gateway_project.work.state.shared import LocalState


class LocalShare(LocalState):
    """The state of a process while Redis is down, by Redis' clock; while Redis is up it only observes."""

    def __init__(self, *, share_of: int, clock: Clock) -> None:
        super().__init__(cache_bytes=0, share_of=share_of, clock=clock)
        self._changed: dict[tuple[str, str], LimitCheck] = {}
        self._in_flight: dict[tuple[str, str], LimitCheck] = {}

    def share_among(self, processes: int) -> None:
        """Set the number of processes that share each limit while Redis is down."""
        with self._lock:
            self._counters.share_of = processes

    def observe_admission(self, token: str, admission: Admission, now: float) -> None:
        """Remember the status of the limits and what this process holds, after Redis has admitted a request."""
        self._counters.redis_counts.note(admission.statuses, now)
        if admission.holds:
            with self._lock:
                self._counters.mirror(token, admission.holds)

    def note_use(self, check: LimitCheck, token: str, now: float) -> None:
        """Note a use without a limit that has begun or, without a token, begun and ended."""
        with self._lock:
            self._counters.uses.take(check, token, now)
            self._changed[check.name, check.member] = check

    def end_flight(self, key: str, token: str) -> None:
        """End a flight that began here while Redis was down."""
        if key in self._flights:
            with self._lock:
                self._end_flight(key, token)

    def changed_uses(self, *, include_all: bool) -> dict[str, list[tuple[LimitCheck, bool]]]:
        """The uses that changed since the last call, by name, each with whether it is in flight.

        With `include_all` also those in flight that have not changed.
        """
        with self._lock:
            changed, self._changed = self._changed | (self._in_flight if include_all else {}), {}
            uses = defaultdict(list)
            for key, check in changed.items():
                in_flight = self._counters.uses.is_in_flight(check)
                uses[check.name].append((check, in_flight))
                if in_flight:
                    self._in_flight[key] = check
                else:
                    self._in_flight.pop(key, None)
            return uses

    def observe_settlement(self, settlement: Settlement, *, counted_in_redis: bool) -> None:
        """Free what an ended request held, and count what it used unless Redis has."""
        if settlement.holds:
            with self._lock:
                self._counters.settle(settlement, counted_in_redis=counted_in_redis)
                for hold in settlement.holds:
                    if (check := hold.check).is_unbounded:
                        self._changed[check.name, check.member] = check

    def hand_over(self) -> list[Count]:
        """The counts that Redis does not have yet; from now on it is assumed to have them."""
        with self._lock:
            return self._counters.hand_over()

    def take_back(self, counts: list[Count]) -> None:
        """Undo hand_over(): Redis did not get these counts."""
        with self._lock:
            self._counters.take_back(counts)
