"""What a process does beside serving, now and then: each chore may be done by several processes at once."""

import logging
import time
from collections.abc import Callable, Sequence

from gateway_project.background import Background, Trouble

log = logging.getLogger("gateway.chores")

LOOK_EVERY_SECONDS = 0.5
STOP_SECONDS = 5.0


class Chore:
    """Something to be done at once, and every so many seconds from then on; `at_end` also when the process stops."""

    def __init__(self, action: Callable[[], None], *, every: float, at_end: bool = False) -> None:
        self.at_end = at_end
        self._action = action
        self._every = every
        self._due = 0.0
        self._trouble = Trouble(log, f"chore {action.__qualname__.rpartition('<locals>.')[2]}")

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def do(self) -> None:
        """Do it; where that fails it is tried again when it is due again."""
        self._due = time.monotonic() + self._every
        with self._trouble.caught():
            self._action()


class Chores(Background):
    """A thread that does them one after the other; those of the end as far as the database answers in time."""

    def __init__(self, name: str, chores: Sequence[Chore], *, every: float = LOOK_EVERY_SECONDS) -> None:
        super().__init__(name, log, every=every)
        self.stop_seconds = STOP_SECONDS if any(chore.at_end for chore in chores) else 0.0
        self._chores = chores

    def round(self) -> None:
        for chore in self._chores:
            if chore.is_due:
                chore.do()

    def last_round(self) -> None:
        for chore in self._chores:
            if chore.at_end:
                chore.do()
