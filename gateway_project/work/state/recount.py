"""Rebuilds counts that were lost, with Redis or with the process that had them, from the log, in a background thread.

Requests whose counts are lost wait for it, a few seconds at most.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from gateway_project.background import BackgroundThread
from gateway_project.work.limits.checks import SPREAD_SECONDS, LostCount
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.limits.status import in_units, usage_from_log
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.prompt_shipping import PromptShipping
from gateway_project.work.state.shared import SharedState
from providers.transport.calls import Call

log = logging.getLogger("gateway.limits")

WAIT_SECONDS = 6.0
CHECK_SECONDS = 0.1
PAUSE_SECONDS = 1.0
SETTLED_SECONDS = 0.5  # after which a request that has ended is in the journal
# One process rebuilds; after so many seconds another one may try.
TASK, TASK_SECONDS = "recount", 20.0


class RecountOrder(NamedTuple):
    """A lost count that requests need, and from when on it may be rebuilt (by the monotonic clock)."""

    lost_count: LostCount
    ready_at: float


class Recounter(BackgroundThread):
    """The thread that reads usage from the log, once all entries have arrived."""

    def __init__(self, state: SharedState, shipping: PromptShipping, *, interval: float) -> None:
        super().__init__("recount", log, every=CHECK_SECONDS)
        self._state = state
        self._shipping = shipping
        self._shipping_seconds = SETTLED_SECONDS + 2 * interval  # in which every live process ships
        self._orders: dict[tuple[str, int], RecountOrder] = {}
        self._changed = threading.Condition()

    def stop(self) -> None:
        super().stop()
        self._drop(())

    def request(self, counts: Sequence[LostCount]) -> None:
        """Have these counts rebuilt soon."""
        with self._changed:
            if not self._orders:
                self.wake()
            for count in counts:
                self._orders.setdefault((count.check.name, count.begin), RecountOrder(count, self._ready_at(count)))

    def wait(self, counts: Sequence[LostCount], call: Call) -> bool:
        """Whether these counts were rebuilt in time. Raises Interrupted if the request was ended meanwhile."""
        deadline = time.monotonic() + WAIT_SECONDS
        names = {(count.check.name, count.begin) for count in counts}
        self.request(counts)
        with self._changed:
            while names & self._orders.keys() and not self.stopped.is_set():
                if time.monotonic() > deadline:
                    return False
                call.check()
                self._changed.wait(CHECK_SECONDS)
        return not self.stopped.is_set()

    def pause(self) -> float | None:
        if not self._orders:
            return None
        return PAUSE_SECONDS if self.repeated_errors else self.every

    def run_once(self) -> None:
        """Drop what others have rebuilt; rebuild what is ready, unless another process is doing so."""
        with self._changed:
            requested = dict(self._orders)
        counts = self._state.still_lost([order.lost_count for order in requested.values()])
        names = {(count.check.name, count.begin) for count in counts}
        self._drop(requested.keys() - names)
        now = time.monotonic()
        ready = [requested[name].lost_count for name in names if requested[name].ready_at <= now]
        if not ready or not self._state.claim_task(TASK, TASK_SECONDS):
            return
        try:
            if self._shipping.ship_soon(self._shipping_seconds):
                self._state.rebuild(list(counted_by_log(ready, self._state.clock)))
        finally:
            self._state.release_task(TASK)

    def _ready_at(self, count: LostCount) -> float:
        """When all that ended before the count begins is in a journal; a clock that jumps does not change that."""
        seconds = count.until + SETTLED_SECONDS - self._state.clock.now()
        return time.monotonic() + min(max(seconds, 0), SPREAD_SECONDS + SETTLED_SECONDS)

    def _drop(self, names: Iterable[tuple[str, int]]) -> None:
        with self._changed:
            for name in names:
                self._orders.pop(name, None)
            self._changed.notify_all()


def counted_by_log(lost_counts: Iterable[LostCount], clock: Clock) -> Iterator[tuple[LostCount, int]]:
    """The usage of each according to the log; one query for all limits of a subject in a window."""
    for (subject, begin, until), counts in groupby(sorted(lost_counts, key=_span), key=_span):
        usage = usage_from_log(subject.kind, [subject.id], begin, until, clock)[subject.id]
        for count in counts:
            yield count, in_units(usage, count.check.limit)


def _span(count: LostCount) -> tuple[Subject, int, float]:
    return count.check.limit.subject, count.begin, count.until
