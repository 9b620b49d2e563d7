"""The state that all processes share about work in flight: limits, cached answers, and flights (single flight).

One round trip admits a request: it counts it against its limits, looks for a cached answer, and decides which of
several identical requests calls the provider. `RedisState` does that for any number of processes, `LocalState` for one
process, and for each process's share of the limits while Redis is down.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, Self

from gateway_project.work.limits.checks import (
    NOTHING_HELD,
    Admission,
    LimitCheck,
    LostCount,
    Reading,
    Settlement,
)
from gateway_project.work.state.acknowledgements import AcknowledgementBoard, SingleProcessBoard
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.counters import CALLS_PROVIDER, ENDS_AT_ONCE, WAITS, Counters
from gateway_project.work.state.local_owners import LocalOwners
from gateway_project.work.state.prompt_shipping import OneProcess, ShippingRequests
from gateway_project.work.state.signal_board import NoBoard, SignalBoard

Checks = Sequence[LimitCheck]
Storing = Callable[[], None]  # waits until an answer is stored


def do_not_wait() -> None:
    """For an answer that is stored already: there is nothing to wait for."""


class SharedState(Protocol):
    """The interface of the shared state. No method raises because the store is down."""

    clock: Clock  # of its windows and counts

    @property
    def shipping_requests(self) -> ShippingRequests:
        """How the processes ask each other to ship their journals."""

    @property
    def signal_board(self) -> SignalBoard:
        """Where processes see what others have measured of targets."""

    @property
    def acknowledgements(self) -> AcknowledgementBoard:
        """Where processes see which changes are in force in others."""

    @property
    def degraded(self) -> bool:
        """Whether the store does not answer, or refuses commands."""

    @property
    def clock_offset(self) -> float:
        """How many seconds its clock is ahead of this process's."""

    @property
    def warning(self) -> str:
        """A warning for administrators; empty for none."""

    @property
    def processes(self) -> int:
        """The number of processes that share it, as far as this one knows."""

    def admit(
        self,
        checks: Checks,
        key: str = "",
        token: str = "",
        *,
        read: bool = False,
        candidate_checks: Sequence[Checks] = (),
        accept_lost: bool = False,
        ignore_lost: bool = False,
    ) -> Admission:
        """Evaluate all checks and take from them, read the cached answer (if `read`), claim the flight.

        Without a token nothing is held and no flight is claimed: the request ends at once. Without a key there is no
        flight. `candidate_checks` are the checks of each candidate; the first candidate with room is taken from. Lost
        counts reject the request, unless `accept_lost`: then it takes from what is known of them; or `ignore_lost`:
        then it takes from this process's share.
        """

    def begin_storing(
        self, key: str, value: bytes, seconds: int, token: str, settlement: Settlement = NOTHING_HELD
    ) -> Storing:
        """Cache an answer for so many seconds, end the flight that this token leads, and settle what a request held.

        What is returned waits until that is done, and has to be called.
        """

    def release(self, key: str, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        """End a flight without an answer, and settle what a request held."""

    def settle(self, settlement: Settlement) -> None:
        """Give back what a request held, and count what it used."""

    def renew_holds(self) -> None:
        """Keep what the requests of this process hold from lapsing."""

    def used_amounts(self, checks: Checks) -> list[int | None]:
        """What is used and held of each check; None where that is not known here."""

    def excerpt(self, checks: Checks) -> "LocalState":
        """A copy of what is known of these checks, to look at; changes of the copy affect nothing else."""

    def still_lost(self, counts: Sequence[LostCount]) -> Sequence[LostCount]:
        """Those of these counts that nobody has rebuilt yet."""

    def claim_task(self, task: str, seconds: float) -> bool:
        """Whether this process may run a task: no other one may until release_task(), or for so many seconds."""

    def release_task(self, task: str) -> None:
        """Let another process run the task again."""

    def rebuild(self, counts: Sequence[tuple[LostCount, int]]) -> None:
        """Add to lost counts what the log says was used; only the first call for each has an effect."""

    def count_uses(self, name: str) -> int:
        """The number of live uses of a USE check."""

    def use_peaks(self, name: str) -> dict[int, int]:
        """Their peak number on each of the last days, by the first second of the day (UTC)."""

    def renew_flight(self, key: str, token: str) -> None:
        """Keep a flight from lapsing."""

    def peek(self, key: str) -> tuple[bytes | None, bool]:
        """The cached answer, and whether a flight for it is under way."""

    def forget_answers(self, keys: Collection[str]) -> bool:
        """Delete the answers under these keys; False if that is not certain."""

    def owners(self, digests: Collection[str]) -> dict[str, int] | None:
        """The user ids of those of these things that were claimed lately; None if that is not known now."""

    def claim_owners(self, claims: Mapping[str, int]) -> dict[str, int] | None:
        """Record an owner for each thing that has none; returns the owner of each, None if that failed."""

    def probe(self) -> None:
        """Check whether a store that was down is back."""

    def tidy(self) -> None:
        """Remove what this process counted in windows that are over."""


LARGEST_ANSWER = 2**40  # no answer has so many bytes
FLIGHT_SECONDS = 10  # a flight lapses this long after its leader last renewed it


class LocalState:
    """The shared state of one process; answers are kept up to `cache_bytes`, the least recently used go first."""

    degraded = False
    warning = ""
    clock_offset = 0.0
    processes = 1
    shipping_requests = OneProcess()
    signal_board = NoBoard()
    acknowledgements = SingleProcessBoard()

    def __init__(self, *, cache_bytes: int, share_of: int | None = None, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self._lock = threading.Lock()
        self._counters = Counters(share_of=share_of, clock=self.clock)
        self._answers: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._bytes = 0
        self._max_bytes = cache_bytes
        self._flights: dict[str, str] = {}
        self._owners = LocalOwners()

    @classmethod
    def from_counters(cls, counters: Counters) -> Self:
        """A state with these counts, for one request that only looks."""
        state = cls(cache_bytes=LARGEST_ANSWER, clock=counters.clock)
        state._counters = counters
        return state

    def admit(
        self,
        checks: Checks,
        key: str = "",
        token: str = "",
        *,
        read: bool = False,
        candidate_checks: Sequence[Checks] = (),
        accept_lost: bool = False,
        ignore_lost: bool = False,
        with_statuses: bool = True,
    ) -> Admission:
        with self._lock:
            counters, now = self._counters, self.clock.now()
            ignore_lost = ignore_lost or accept_lost
            admission, mode = counters.check(checks, token, now, ignore_lost=ignore_lost), ENDS_AT_ONCE
            if not admission.is_rejected:
                admission.value = value = self._read(key) if read else None
                mode = self._mode(key, token, value)
            if mode == CALLS_PROVIDER:
                counters.check_candidates(admission, checks, candidate_checks, token, now, ignore_lost=ignore_lost)
                if candidate_checks and not admission.is_rejected:
                    checks = [*checks, *candidate_checks[admission.choice]]
            with_statuses = with_statuses and not admission.lost
            if with_statuses:
                admission.readings = counters.read_checks(admission, checks, now)
            if not admission.is_rejected:
                if key and mode == CALLS_PROVIDER:
                    self._flights[key] = token
                    admission.leads = True
                counters.take(admission, checks, token, mode, now)
            if with_statuses:
                admission.statuses = counters.statuses(checks, now)
            return admission

    def _mode(self, key: str, token: str, value: bytes | None) -> int:
        if value is not None or not token:
            return ENDS_AT_ONCE
        return CALLS_PROVIDER if not key or self._flights.get(key, token) == token else WAITS

    def begin_storing(
        self, key: str, value: bytes, seconds: int, token: str, settlement: Settlement = NOTHING_HELD
    ) -> Storing:
        with self._lock:
            self._end_flight(key, token)
            self._counters.settle(settlement)
            if len(value) > self._max_bytes:
                return do_not_wait
            self._drop(key)
            self._answers[key] = (value, time.monotonic() + seconds)
            self._bytes += len(value)
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._answers)))
        return do_not_wait

    def release(self, key: str, token: str, settlement: Settlement = NOTHING_HELD) -> None:
        with self._lock:
            self._end_flight(key, token)
            self._counters.settle(settlement)

    def settle(self, settlement: Settlement) -> None:
        with self._lock:
            self._counters.settle(settlement)

    def renew_holds(self) -> None:
        """Nothing to do: what this process holds dies with it."""

    def used_amounts(self, checks: Checks) -> list[int | None]:
        with self._lock:
            return [self._counters.total_if_known(check, self.clock.now()) for check in checks]

    def excerpt(self, checks: Checks) -> "LocalState":
        with self._lock:
            return LocalState.from_counters(self._counters.excerpt(checks, self.clock.now()))

    def lost_counts(self, checks: Checks) -> Sequence[LostCount]:
        """Those of these counts that have to be rebuilt first."""
        with self._lock:
            return self._counters.lost_counts(checks, self.clock.now())

    def read_checks(self, checks: Checks) -> list[Reading]:
        """Each of these checks as it is now."""
        with self._lock:
            return [self._counters.read_check(check, self.clock.now()) for check in checks]

    def still_lost(self, counts: Sequence[LostCount]) -> Sequence[LostCount]:
        with self._lock:
            return [count for count in counts if self._counters.is_lost(count)]

    def claim_task(self, task: str, seconds: float) -> bool:
        return True

    def release_task(self, task: str) -> None:
        """Nothing to do: there is no other process."""

    def rebuild(self, counts: Sequence[tuple[LostCount, int]]) -> None:
        with self._lock:
            for count, usage in counts:
                self._counters.rebuild(count, usage)

    def count_uses(self, name: str) -> int:
        with self._lock:
            return self._counters.uses.live(name, self.clock.now())

    def use_peaks(self, name: str) -> dict[int, int]:
        with self._lock:
            return self._counters.uses.peaks(name)

    def renew_flight(self, key: str, token: str) -> None:
        """Nothing to do: a flight in this process ends with its request and cannot lapse."""

    def forget_answers(self, keys: Collection[str]) -> bool:
        with self._lock:
            for key in keys:
                self._drop(key)
        return True

    def owners(self, digests: Collection[str]) -> dict[str, int] | None:
        return self._owners.find(digests)

    def claim_owners(self, claims: Mapping[str, int]) -> dict[str, int] | None:
        return self._owners.claim(claims)

    def probe(self) -> None:
        """Nothing to do: memory is never down."""

    def tidy(self) -> None:
        with self._lock:
            self._counters.tidy(self.clock.now())
        self._owners.tidy()

    def peek(self, key: str) -> tuple[bytes | None, bool]:
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
