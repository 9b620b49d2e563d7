"""How fast and how busy each target is, as this process and the others have measured it.

On the path of a request an entry is added to a set and a tuple is replaced: nothing is locked. Two threads that measure
at the same moment may lose one of the measurements, never a request in flight.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gateway_project.work.routing.averages import Average

# A provider's id, our name of the model, and whether streams are measured: their first token comes sooner than a whole
# answer.
Key = tuple[int, str, bool]
EXPLORE_AFTER_SECONDS = 5.0  # without a measurement
EXPLORED_SHARE = 0.05  # the most requests that go to a target only to measure it
RECENT_TIMES = 200  # of which the 95th percentile is taken
MIN_RECENT_TIMES = 20
FORGOTTEN_SECONDS = 3600.0  # after which a request that nobody has ended counts no more
STALE_SECONDS = 10.0  # after which what another process has shared is dropped: it has ended


class View(NamedTuple):
    """What is known of a target in all processes."""

    in_flight: int = 0
    first_token_seconds: float | None = None  # None if it was never measured
    failure_rate: float = 0.0
    measured_at: float = 0.0  # by the clock of this process; 0.0 for never

    @property
    def expected_seconds(self) -> float | None:
        """How long a client waits for a first token, also where some attempts fail."""
        if self.first_token_seconds is None:
            return None
        return self.first_token_seconds / max(1 - self.failure_rate, 0.05)


class Shared(NamedTuple):
    """The measurements of a target in one process or in several; as JSON on the way between processes."""

    in_flight: int = 0
    speed: Average = Average()
    failures: Average = Average()
    measured_at: float = 0.0

    def merged_with(self, other: "Shared", now: float) -> "Shared":
        """The measurements of both."""
        return Shared(
            self.in_flight + other.in_flight,
            self.speed.merged_with(other.speed, now),
            self.failures.merged_with(other.failures, now),
            max(self.measured_at, other.measured_at),
        )


class Sending:
    """A request that a target works on."""

    __slots__ = ("_measures", "_signals", "has_answered", "started")

    def __init__(self, measures: "Measures", signals: "Signals", started: float) -> None:
        self._measures, self._signals, self.started = measures, signals, started
        self.has_answered = False

    def note_first_token(self) -> None:
        """Its first token has arrived; only the first call counts."""
        if not self.has_answered:
            self.has_answered = True
            self._measures.add_time(self.started, self._signals.clock())

    def note_failure(self) -> None:
        """The target could not serve it."""
        self._measures.add_outcome(1.0, self._signals.clock())

    def end(self) -> None:
        """The target no longer works on it; may be called twice."""
        self._measures.live.discard(self)


class Measures:
    """What this process has measured of one target."""

    __slots__ = ("failures", "live", "measured_at", "overdue", "recent", "speed")

    def __init__(self) -> None:
        self.live: set[Sending] = set()
        self.speed = self.failures = self.overdue = Average()
        self.recent: deque[float] = deque(maxlen=RECENT_TIMES)
        self.measured_at = 0.0

    def add_time(self, started: float, now: float) -> None:
        """Note a time to the first token, which is a success too."""
        self.recent.append(now - started)
        self.speed = self.speed.with_measurement(now - started, now)
        self.add_outcome(0.0, now)

    def add_outcome(self, failure: float, now: float) -> None:
        """Note a success (0.0) or a failure (1.0)."""
        self.failures = self.failures.with_measurement(failure, now)
        self.measured_at = now

    def review(self, now: float) -> None:
        """Count the requests that wait longer than usual with the time that they have waited so far."""
        usual = self.speed.mean
        self.live.difference_update(
            [sending for sending in list(self.live) if now - sending.started > FORGOTTEN_SECONDS]
        )
        waiting = [now - sending.started for sending in list(self.live) if not sending.has_answered]
        late = [seconds for seconds in waiting if seconds > 2 * (usual or 0.0)]
        self.overdue = Average(sum(late), len(late), now)

    def copy(self) -> "Measures":
        """The same measurements, to which others can be added."""
        copy = Measures()
        copy.live, copy.recent, copy.measured_at = set(self.live), self.recent.copy(), self.measured_at
        copy.speed, copy.failures, copy.overdue = self.speed, self.failures, self.overdue
        return copy

    def as_shared(self, now: float) -> Shared:
        """The measurements as the other processes need them."""
        speed = self.speed.merged_with(self.overdue, now)
        return Shared(len(self.live), speed, self.failures.aged_to(now), self.measured_at)


class Signals:
    """The measurements of all targets; times come from the clock that is handed in."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._measures: dict[Key, Measures] = {}
        self._peers: dict[str, tuple[float, dict[Key, Shared]]] = {}
        self._others: dict[Key, Shared] = {}
        self._explorations = 0.0
        self._explored_at: dict[Key, float] = {}

    # -- On the path of a request -----------------------------------------------------------------------

    def begin(self, key: Key) -> Sending:
        """A request goes to this target."""
        measures = self._measures.get(key) or self._measures.setdefault(key, Measures())
        sending = Sending(measures, self, self.clock())
        measures.live.add(sending)
        return sending

    def view(self, key: Key) -> View:
        """What is known of a target."""
        measures, others, now = self._measures.get(key), self._others.get(key), self.clock()
        if measures is None and others is None:
            return View()
        shared = measures.as_shared(now) if measures is not None else Shared()
        if others is not None:
            shared = shared.merged_with(others, now)
        return View(shared.in_flight, shared.speed.mean, shared.failures.mean or 0.0, shared.measured_at)

    def in_flight(self, provider_id: int, model: str) -> int:
        """The requests that a target works on, streamed or not, in all processes."""
        keys = (provider_id, model, True), (provider_id, model, False)
        own = sum(len(measures.live) for key in keys if (measures := self._measures.get(key)))
        return own + sum(shared.in_flight for key in keys if (shared := self._others.get(key)))

    def to_explore(self, keys: Sequence[Key], views: Sequence[View]) -> Key | None:
        """The target that was not measured for longest, if that is too long ago and not too many were explored."""
        self._explorations = min(self._explorations + EXPLORED_SHARE, 1.0)
        if self._explorations < 1.0:
            return None
        now = self.clock()
        last = {
            key: max(view.measured_at, self._explored_at.get(key, 0.0)) for key, view in zip(keys, views, strict=True)
        }
        oldest = min(last, key=last.__getitem__)
        if now - last[oldest] < EXPLORE_AFTER_SECONDS:
            return None
        self._explorations, self._explored_at[oldest] = 0.0, now
        return oldest

    def slow_after(self, key: Key) -> float | None:
        """The 95th percentile of the recent times to the first token in this process; None if there are too few."""
        measures = self._measures.get(key)
        if measures is None or len(measures.recent) < MIN_RECENT_TIMES:
            return None
        times = sorted(measures.recent)
        return times[int(len(times) * 0.95)]

    @property
    def has_measurements(self) -> bool:
        """Whether this process has measured anything."""
        return bool(self._measures)

    def without_exploration(self) -> "Signals":
        """The same measurements, by which no target is asked only to measure it."""
        copy = self.copy()
        copy._explorations = -math.inf
        return copy

    def copy(self) -> "Signals":
        """The same measurements, for a request that only looks: none is added to."""
        copy = Signals(self.clock)
        copy._measures = {key: measures.copy() for key, measures in list(self._measures.items())}
        copy._others, copy._explorations, copy._explored_at = self._others, self._explorations, dict(self._explored_at)
        return copy

    # -- In the background ------------------------------------------------------------------------------

    def export(self) -> "Export":
        """The measurements of this process; times are ages, as clocks of machines differ."""
        now = self.clock()
        for measures in list(self._measures.values()):
            measures.review(now)
        return [_export_row(key, measures.as_shared(now), now) for key, measures in list(self._measures.items())]

    def merge(self, exports: "Iterable[tuple[str, Export]]") -> None:
        """Take over what other processes have exported, each under the name of its process."""
        now = self.clock()
        for process, export in exports:
            self._peers[process] = now, dict(_import_row(row, now) for row in export)
        self._peers = {name: peer for name, peer in self._peers.items() if now - peer[0] < STALE_SECONDS}
        others: dict[Key, Shared] = {}
        for _, measurements in self._peers.values():
            for key, shared in measurements.items():
                others[key] = others[key].merged_with(shared, now) if key in others else shared
        self._others = others


# Provider, model, whether streamed; in flight; total and weight of the times, of the failures; age of the last one.
Row = tuple[int, str, bool, int, float, float, float, float, float]
Export = list[Row]


def _export_row(key: Key, shared: Shared, now: float) -> Row:
    age = now - shared.measured_at if shared.measured_at else -1.0
    return (*key, shared.in_flight, *shared.speed[:2], *shared.failures[:2], age)


def _import_row(row: Row, now: float) -> tuple[Key, Shared]:
    provider_id, model, is_streamed, in_flight, *sums, age = row
    speed, failures = Average(sums[0], sums[1], now), Average(sums[2], sums[3], now)
    return (provider_id, model, is_streamed), Shared(in_flight, speed, failures, now - age if age >= 0 else 0.0)
