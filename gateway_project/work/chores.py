"""What a process does beside serving, now and then, with the database: each chore may be done by several at once."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from django.db import Error as DatabaseError
from django.db import connection

log = logging.getLogger("gateway.chores")

LOOK_EVERY_SECONDS = 0.5
STOP_SECONDS = 5.0


class Chore:
    """Something to be done at once, and every so many seconds from then on; `at_end` also when the process stops."""

    def __init__(self, action: Callable[[], None], *, every: float, at_end: bool = False) -> None:
        self.name = action.__name__
        self.at_end = at_end
        self._action = action
        self._every = every
        self._due = 0.0
        self._failed = False

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def do(self) -> None:
        """Do it, and say once if it fails; it is tried again when it is due again."""
        self._due = time.monotonic() + self._every
        try:
            self._action()
            connection.close_if_unusable_or_obsolete()  # before the next one somebody else may need it
            self._failed = False
        except DatabaseError as error:
            if not self._failed:
                log.warning("The chore %s waits for the database: %s", self.name, str(error).split("\n")[0])
            self._failed = True
            connection.close()
        except Exception:
            log.exception("The chore %s failed; it is tried again.", self.name)
            connection.close()


class Chores:
    """The thread that does them one after the other."""

    def __init__(self, chores: Sequence[Chore]) -> None:
        self._chores = chores
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chores", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, after what is to be done at the end, as far as the database answers in time."""
        self._stopped.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_SECONDS):
            self._do([chore for chore in self._chores if chore.is_due])
        self._do([chore for chore in self._chores if chore.at_end])

    def _do(self, chores: Sequence[Chore]) -> None:
        for chore in chores:
            chore.do()
