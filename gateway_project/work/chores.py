"""What a process does beside serving, now and then, with the database: each chore may be done by several at once."""

import logging
import time
from collections.abc import Callable, Sequence

from gateway_project.background import Background, Trouble

log = logging.getLogger("gateway.chores")

LOOK_EVERY_SECONDS = 0.5


class Chore:
    """Something to be done at once, and every so many seconds from then on; `at_end` also when the process stops."""

    def __init__(self, action: Callable[[], None], *, every: float, at_end: bool = False) -> None:
        self.at_end = at_end
        self._action = action
        self._every = every
        self._due = 0.0
        self._trouble = Trouble(log, f"chore {action.__name__}")

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def do(self) -> None:
        """Do it; where that fails it is tried again when it is due again."""
        self._due = time.monotonic() + self._every
        with self._trouble.caught():
            self._action()


class Chores(Background):
    """The thread that does them one after the other; at the end as far as the database answers in time."""

    stop_seconds = 5.0

    def __init__(self, chores: Sequence[Chore]) -> None:
        super().__init__("chores", log, every=LOOK_EVERY_SECONDS)
        self._chores = chores

    def round(self) -> None:
        for chore in self._chores:
            if chore.is_due:
                chore.do()

    def last_round(self) -> None:
        for chore in self._chores:
            if chore.at_end:
                chore.do()
