"""Background threads: each repeats one piece of work, or runs periodic tasks, until it is stopped."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from django.db import Error as DatabaseError
from django.db import connection

log = logging.getLogger("gateway.tasks")

CHECK_EVERY_SECONDS = 0.5
STOP_SECONDS = 5.0
# Of in_slices(). The items of a slice take some tenths of a millisecond.
SLICE_LENGTH, PAUSE_SECONDS = 64, 0.0005

Item = TypeVar("Item")


class RepeatedErrors:
    """Catches and logs the errors of repeated work: each type once, until the work succeeds again."""

    def __init__(
        self,
        log: logging.Logger,
        name: str,
        *,
        database_message: Callable[[], str] | None = None,
        database_level: int = logging.WARNING,
    ) -> None:
        self._log = log
        self._name = name
        self._database_message = database_message or (lambda: f"The {name} waits for the database")
        self._database_level = database_level
        self._logged: set[type[Exception]] = set()

    def __bool__(self) -> bool:
        """Whether the last attempt failed."""
        return bool(self._logged)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Around one attempt: logs its error instead of raising it, and returns its connection to the pool."""
        try:
            yield
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
        except Exception as error:
            self._log_once(error)
            with suppress(Exception):  # the connection may be too broken to be closed
                connection.close()
        else:
            if self._logged:
                level = self._database_level if self._logged == {DatabaseError} else logging.WARNING
                self._logged.clear()
                self._log.log(level, "The %s resumed.", self._name)

    def _log_once(self, error: Exception) -> None:
        kind = DatabaseError if isinstance(error, DatabaseError) else type(error)
        if kind in self._logged:
            return
        self._logged.add(kind)
        if kind is DatabaseError:
            self._log.log(self._database_level, "%s: %s", self._database_message(), str(error).split("\n")[0])
        else:
            self._log.error("The %s failed. The gateway tries again.", self._name, exc_info=error)


def in_slices(items: Iterable[Item]) -> Iterator[Item]:
    """The items, with a pause after each slice: requests wait for the interpreter while another thread computes."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % SLICE_LENGTH:
            time.sleep(PAUSE_SECONDS)


class BackgroundThread:
    """A thread that calls run_once() every so many seconds, even after errors.

    Call start() in the process that is to have the thread: no thread survives a fork.
    """

    stop_seconds = 0.0  # how long stop() waits for run_last()

    def __init__(self, name: str, log: logging.Logger, *, every: float) -> None:
        self.every = every
        self.stopped = threading.Event()
        self.repeated_errors = RepeatedErrors(log, name)
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the current run and run_last()."""
        self.stopped.set()
        self.wake()
        if self.is_running:
            self._thread.join(self.stop_seconds)

    def wake(self) -> None:
        """Begin the next run at once."""
        self._woken.set()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def pause(self) -> float | None:
        """Seconds until the next run; None: until wake()."""
        return self.every

    def run_once(self) -> object:
        """The work of each run."""
        raise NotImplementedError

    def run_last(self) -> None:
        """Work to do after stop()."""

    def _run(self) -> None:
        while True:
            self._woken.wait(self.pause())
            self._woken.clear()
            if self.stopped.is_set():
                break
            with self.repeated_errors.caught():
                self.run_once()
        with self.repeated_errors.caught():
            self.run_last()
        connection.close()


class PeriodicTask:
    """An action that runs at once and then every so many seconds; with `at_end` also when the process stops.

    Every process runs it, so it must bear being run by several processes at once. `name` is the action's by default.
    """

    def __init__(
        self,
        action: Callable[[], None],
        *,
        every: float,
        name: str = "",
        at_end: bool = False,
        database_level: int = logging.WARNING,
    ) -> None:
        self.name = name or action.__qualname__.rpartition("<locals>.")[2]
        self.at_end = at_end
        self._action = action
        self._every = every
        self._due = 0.0
        self._errors = RepeatedErrors(log, f"task {self.name}", database_level=database_level)

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    @property
    def has_failed(self) -> bool:
        """Whether the last run failed."""
        return bool(self._errors)

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
        self.tasks = tasks

    def run_once(self) -> None:
        for task in self.tasks:
            if task.is_due:
                task.run()

    def run_last(self) -> None:
        for task in self.tasks:
            if task.at_end:
                task.run()
