"""The clock of the shared state, relative to this process's own. Times are seconds since 1970."""

import time

PRECISION_SECONDS = 0.001  # of the times that Redis reports


class Clock:
    """The clock of the shared state; this process's own until Redis has reported another time.

    The log and each request have the times of the process; windows and counts have those of the shared state.
    """

    def __init__(self) -> None:
        self.offset = 0.0  # seconds ahead of this process's clock

    def now(self) -> float:
        return time.time() + self.offset

    def from_local(self, at: float) -> float:
        """This clock's time when the process's own clock shows `at`."""
        return at + self.offset

    def to_local(self, at: float) -> float:
        """The process's own time when this clock shows `at`."""
        return at - self.offset

    def observe(self, reading: float, *, request_time: float, reply_time: float) -> None:
        """Note that it showed this time at some moment between these two times of our own clock.

        The offset changes only as far as that rules it out: a slow reply says little, and clocks that agree stay so.
        """
        self.offset = min(max(self.offset, reading - reply_time), reading + PRECISION_SECONDS - request_time)
