"""What all processes share about work in flight: limits, cached answers, and who is asking for which.

One round trip admits a request: it counts it against its limits, looks for a cached answer, and
settles who of several identical requests calls the provider. `RedisState` does it for any number of
processes; `LocalState` for one process, and for each one's share while Redis is away.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Protocol

from gateway_project.work.clock import Clock
from gateway_project.work.counters import ASKS, AT_ONCE, WAITS, Counters
from gateway_project.work.limits import NOTHING_HELD, Admission, LimitCheck, Lost, Settlement

Checks = Sequence[LimitCheck]


class SharedState(Protocol):
    """What the pipeline asks of the shared state. No method raises because a store is away."""

    clock: Clock  # of its windows and counts
    degraded: bool
    warning: str  # what administrators should know of the store; empty for nothing

    def admit(
        self,
        checks: Checks,
        key: str = "",
        token: str = "",
        *,
        read: bool = False,
        choices: Sequence[Checks] = (),
        blind: bool = False,
    ) -> Admission:
        """Ask all checks of a request and take from them, read its cached answer (where `read`), lead its flight.

        Without a token nothing is held and no flight led: the request ends at once; without a key there is no
        flight. `choices` are the checks of each candidate, of which the first with room is taken from. Counts that
        were lost turn a request away, unless it comes `blind`: then it takes from this process's share.
        """

    def store(self, key: str, value: bytes, seconds: int, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        """Keep an answer, end the flight that this token leads, and settle what a request held."""

    def release(self, key: str, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        """End a flight without an answer, and settle what a request held."""

    def settle(self, settlement: Settlement) -> None:
        """Give back what a request held, and count what it came to."""

    def renew_holds(self) -> None:
        """Keep what the requests of this process hold from lapsing."""

    def used(self, checks: Checks) -> list[int | None]:
        """What is used of each, what is held included; None where that is not known here."""

    def still_lost(self, counts: Sequence[Lost]) -> Sequence[Lost]:
        """Those of these counts that nobody has rebuilt yet."""

    def alone(self, task: str, seconds: float) -> bool:
        """Whether this process is the one to do a task, for as long as that takes, or so many seconds."""

    def finish(self, task: str) -> None:
        """The task is done: another process may do it again."""

    def rebuild(self, counts: Sequence[tuple[Lost, int]]) -> None:
        """What the log tells that was used of counts that were lost; only the first to tell is heard."""

    def uses(self, name: str) -> int:
        """How many uses of a USE check are live."""

    def peaks(self, name: str) -> dict[int, int]:
        """The most of them at one moment of each of the last days, by the first second of the day (UTC)."""

    def renew(self, key: str, token: str) -> None:
        """Keep a flight from lapsing."""

    def look(self, key: str) -> tuple[bytes | None, bool]:
        """The cached answer, and whether somebody is asking the provider for it."""

    def forget(self, keys: Collection[str]) -> bool:
        """Serve the answers under these keys no more; whether that is certain."""

    def probe(self) -> None:
        """See whether a store that was away is back."""

    def tidy(self) -> None:
        """Let go of what this process counted in windows that are over."""


# A flight lapses so long after its leader was last heard of.
FLIGHT_SECONDS = 10


class LocalState:
    """The shared state of one process; answers are kept up to a number of bytes, the least used go first."""

    degraded = False
    warning = ""

    def __init__(self, *, cache_bytes: int, share_of: int | None = None, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self._lock = threading.Lock()
        self._counters = Counters(share_of=share_of, clock=self.clock)
        self._answers: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._bytes = 0
        self._most_bytes = cache_bytes
        self._flights: dict[str, str] = {}

    def admit(
        self,
        checks: Checks,
        key: str = "",
        token: str = "",
        *,
        read: bool = False,
        choices: Sequence[Checks] = (),
        blind: bool = False,
    ) -> Admission:
        with self._lock:
            counters, now = self._counters, self.clock.now()
            admission = counters.ask(checks, token, now, blind=blind)
            if admission.turned_away:
                return admission
            admission.value = value = self._read(key) if read else None
            mode = self._mode(key, token, value)
            if mode == ASKS:
                counters.ask_candidates(admission, checks, choices, token, now, blind=blind)
                if admission.turned_away:
                    return admission
                if choices:
                    checks = [*checks, *choices[admission.choice]]
                if key:
                    self._flights[key] = token
                    admission.leads = True
            counters.take(admission, checks, token, mode, now)
            return admission

    def _mode(self, key: str, token: str, value: bytes | None) -> int:
        if value is not None or not token:
            return AT_ONCE
        return ASKS if not key or self._flights.get(key, token) == token else WAITS

    def store(self, key: str, value: bytes, seconds: int, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        with self._lock:
            self._end_flight(key, token)
            self._counters.settle(settlement)
            if len(value) > self._most_bytes:
                return
            self._drop(key)
            self._answers[key] = (value, time.monotonic() + seconds)
            self._bytes += len(value)
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._answers)))

    def release(self, key: str, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        with self._lock:
            self._end_flight(key, token)
            self._counters.settle(settlement)

    def settle(self, settlement: Settlement) -> None:
        with self._lock:
            self._counters.settle(settlement)

    def renew_holds(self) -> None:
        """What this process holds dies with it."""

    def used(self, checks: Checks) -> list[int | None]:
        with self._lock:
            return [self._counters.known_total(check, self.clock.now()) for check in checks]

    def still_lost(self, counts: Sequence[Lost]) -> Sequence[Lost]:
        with self._lock:
            return [lost for lost in counts if self._counters.is_lost(lost)]

    def alone(self, task: str, seconds: float) -> bool:
        return True

    def finish(self, task: str) -> None:
        """There is nobody else."""

    def rebuild(self, counts: Sequence[tuple[Lost, int]]) -> None:
        with self._lock:
            for lost, used in counts:
                self._counters.rebuild(lost, used)

    def uses(self, name: str) -> int:
        with self._lock:
            return self._counters.uses.live(name, self.clock.now())

    def peaks(self, name: str) -> dict[int, int]:
        with self._lock:
            return self._counters.uses.peaks(name)

    def renew(self, key: str, token: str) -> None:
        """A flight in this process ends with its request: it cannot lapse."""

    def forget(self, keys: Collection[str]) -> bool:
        with self._lock:
            for key in keys:
                self._drop(key)
        return True

    def probe(self) -> None:
        """Memory is never away."""

    def tidy(self) -> None:
        with self._lock:
            self._counters.tidy(self.clock.now())

    def look(self, key: str) -> tuple[bytes | None, bool]:
        with self._lock:
            return self._read(key), key in self._flights

    def _read(self, key: str) -> bytes | None:
        value, until = self._answers.get(key, (None, 0.0))
        if value is None:
            return None
        if until <= time.monotonic():
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return value

    def _drop(self, key: str) -> None:
        value, _ = self._answers.pop(key, (b"", 0.0))
        self._bytes -= len(value)

    def _end_flight(self, key: str, token: str) -> None:
        if self._flights.get(key) == token:
            del self._flights[key]
