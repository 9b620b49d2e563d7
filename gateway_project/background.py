"""What a process does beside serving: threads that do one thing again and again until they are stopped."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection


class Trouble:
    """What goes wrong with something that is tried again and again: each kind is told once, until it works again."""

    def __init__(self, log: logging.Logger, what: str, *, away: str = "") -> None:
        self._log = log
        self._what = what
        self._away = away or f"The {what} waits for the database"
        self._told: set[type[Exception]] = set()

    def __bool__(self) -> bool:
        """Whether it went wrong the last time."""
        return bool(self._told)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Nothing that goes wrong in this block gets out of it; between two of them others may need its connection."""
        try:
            yield
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
        except Exception as error:
            self._tell(error)
            with suppress(Exception):  # of a connection that is beyond closing
                connection.close()
        else:
            if self._told:
                self._told.clear()
                self._log.warning("The %s goes on.", self._what)

    def _tell(self, error: Exception) -> None:
        kind = DatabaseError if isinstance(error, DatabaseError) else type(error)
        if kind in self._told:
            return
        self._told.add(kind)
        if kind is DatabaseError:
            self._log.warning("%s: %s", self._away, str(error).split("\n")[0])
        else:
            self._log.error("The %s failed; it is tried again.", self._what, exc_info=error)


class Background:
    """A thread that does its round every so many seconds, whatever goes wrong in between.

    It begins with start(), in the process that is to have it: no thread survives a fork.
    """

    stop_seconds = 0.0  # that stop() waits for the end of the last round

    def __init__(self, name: str, log: logging.Logger, *, every: float) -> None:
        self.every = every
        self.stopped = threading.Event()
        self.trouble = Trouble(log, name)
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after this round, and what is to be done at the end."""
        self.stopped.set()
        self.wake()
        if self.is_running:
            self._thread.join(self.stop_seconds)

    def wake(self) -> None:
        """Begin the next round at once."""
        self._woken.set()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def pause(self) -> float | None:
        """Seconds until the next round; None: until it is woken."""
        return self.every

    def round(self) -> Any:
        """What is done each time."""
        raise NotImplementedError

    def last_round(self) -> None:
        """What is done when it was stopped."""

    def _run(self) -> None:
        while True:
            self._woken.wait(self.pause())
            self._woken.clear()
            if self.stopped.is_set():
                break
            with self.trouble.caught():
                self.round()
        with self.trouble.caught():
            self.last_round()
        connection.close()
