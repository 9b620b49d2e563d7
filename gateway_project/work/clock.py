"""Another machine's clock, beside this one's own. Moments are seconds since 1970."""

import time


class Clock:
    """The clock of the shared state: this process's own, until a store has told another time.

    The log has the times of the process that wrote it, and so does a request; windows and counts have the store's.
    """

    def __init__(self) -> None:
        self.ahead = 0.0  # of this process's own, in seconds

    def now(self) -> float:
        return time.time() + self.ahead

    def of_own(self, at: float) -> float:
        """What this clock shows when this process's own shows that."""
        return at + self.ahead

    def to_own(self, at: float) -> float:
        """What this process's own clock shows when this one shows that."""
        return at - self.ahead

    def heard(self, told: float, *, sent: float, received: float, exact_to: float = 0.001) -> None:
        """It showed this time at some moment between these two of our own.

        Only what that rules out is corrected: a slow reply tells little, and clocks that agree stay as they are.
        """
        self.ahead = min(max(self.ahead, told - received), told + exact_to - sent)
