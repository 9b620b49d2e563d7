"""Rebuilds counts that were lost, with Redis or with the process that had them, from the log, in a background thread.

Requests whose counts are lost wait for it, a few seconds at most.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from gateway_project.background import BackgroundThread
from gateway_project.work.limits.checks import LostCount
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.limits.status import in_units, usage_from_log
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.shared import SharedState
from providers.transport.calls import Call
from telemetry.journal.shipping import Shipper

log = logging.getLogger("gateway.limits")

WAIT_SECONDS = 6.0
CHECK_SECONDS = 0.1
PAUSE_SECONDS = 1.0
MIN_LAG_SECONDS = 0.5
# One process rebuilds; after so many seconds another one may try.
TASK, TASK_SECONDS = "recount", 20.0


class Recounter(BackgroundThread):
    """The thread that reads usage from the log, once all entries have had time to arrive."""

    def __init__(self, state: SharedState, shipper: Shipper, *, interval: float) -> None:
        super().__init__("recount", log, every=CHECK_SECONDS)
        self._state = state
        self._shipper = shipper
        self._lag = MIN_LAG_SECONDS + 2 * interval  # after which the entries of all processes have arrived
        self._wanted: dict[tuple[str, int], LostCount] = {}
        self._changed = threading.Condition()

    def stop(self) -> None:
        super().stop()
        self._done(())

    def wait(self, lost: Sequence[LostCount], call: Call) -> bool:
        """Whether these counts were rebuilt in time. Raises Interrupted if the request was ended meanwhile."""
        deadline = time.monotonic() + WAIT_SECONDS
        names = {(one.check.name, one.begin) for one in lost}
        with self._changed:
            if not self._wanted:
                self.wake()
            self._wanted |= {(one.check.name, one.begin): one for one in lost}
            while names & self._wanted.keys() and not self.stopped.is_set():
                if time.monotonic() > deadline:
                    return False
                call.check()
                self._changed.wait(CHECK_SECONDS)
        return not self.stopped.is_set()

    def pause(self) -> float | None:
        if not self._wanted:
            return None
        return PAUSE_SECONDS if self.repeated_errors else self.every

    def run_once(self) -> None:
        """Drop what others have rebuilt; rebuild what is ready, unless another process is doing so."""
        with self._changed:
            requested = dict(self._wanted)
        lost = self._state.still_lost(list(requested.values()))
        self._done(requested.keys() - {(one.check.name, one.begin) for one in lost})
        ready = [one for one in lost if self._is_in_log(one.until)]
        if not ready or not self._shipper.has_adopted or not self._state.claim_task(TASK, TASK_SECONDS):
            return
        try:
            self._state.rebuild(list(_counted(ready, self._state.clock)))
        finally:
            self._state.release_task(TASK)

    def _is_in_log(self, until: float) -> bool:
        """Whether entries up to then are in the log: this process's have arrived, all others have had the time to."""
        until = self._state.clock.to_local(until)
        return time.time() >= until + self._lag and self._shipper.has_shipped(until + MIN_LAG_SECONDS)

    def _done(self, names: Iterable[tuple[str, int]]) -> None:
        with self._changed:
            for name in names:
                self._wanted.pop(name, None)
            self._changed.notify_all()


def _counted(lost: Iterable[LostCount], clock: Clock) -> Iterator[tuple[LostCount, int]]:
    """The usage of each according to the log; one query for all limits of a subject in a window."""
    for (subject, begin, until), counts in groupby(sorted(lost, key=_span), key=_span):
        amounts = in_units(usage_from_log(subject.kind, [subject.id], begin, until, clock)[subject.id])
        for one in counts:
            yield one, amounts[one.check.limit.measure]


def _span(lost: LostCount) -> tuple[Subject, int, float]:
    return lost.check.limit.subject, lost.begin, lost.until
