"""Periodic background tasks of a process; each must bear being run by several processes at once."""

import logging
import time
from collections.abc import Callable, Sequence

from gateway_project.background import BackgroundThread, RepeatedErrors

log = logging.getLogger("gateway.chores")

CHECK_EVERY_SECONDS = 0.5
STOP_SECONDS = 5.0


class PeriodicTask:
    """An action run at once and then every so many seconds; with `at_end` also when the process stops."""

    def __init__(self, action: Callable[[], None], *, every: float, at_end: bool = False) -> None:
        self.at_end = at_end
        self._action = action
        self._every = every
        self._due = 0.0
        self._errors = RepeatedErrors(log, f"chore {action.__qualname__.rpartition('<locals>.')[2]}")

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def run(self) -> None:
        """Run the action; after a failure it is tried again when it is due again."""
        self._due = time.monotonic() + self._every
        with self._errors.caught():
            self._action()


class PeriodicTasks(BackgroundThread):
    """A thread that runs tasks one after the other; it gets STOP_SECONDS for those that run `at_end`."""

    def __init__(self, name: str, tasks: Sequence[PeriodicTask], *, every: float = CHECK_EVERY_SECONDS) -> None:
        super().__init__(name, log, every=every)
        self.stop_seconds = STOP_SECONDS if any(task.at_end for task in tasks) else 0.0
        self._tasks = tasks

    def run_once(self) -> None:
        for task in self._tasks:
            if task.is_due:
                task.run()

    def run_last(self) -> None:
        for task in self._tasks:
            if task.at_end:
                task.run()
