"""Password hashes are computed by one thread, and few requests wait for it.

One hash takes 100 MB and a core for a tenth of a second. Argon2 releases the interpreter's lock, so this thread can
have a lower priority than those that serve work.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from django.contrib.auth.hashers import Argon2PasswordHasher, check_password, make_password

from gateway_project.errors import ServiceUnavailable
from gateway_project.server.connections.logins import TOO_MANY_LOGINS

THREADS = 1
MAX_WAITING = 16
WAIT_SECONDS = 1.0
NICENESS = 15
PATIENT_SECONDS = 10.0  # for a new password, which only users and admins who are logged in can set
T = TypeVar("T")


class OneLaneHasher(Argon2PasswordHasher):
    """Django's Argon2 with one lane: Argon2 starts a thread for each lane, and new threads escape the low priority."""

    parallelism = 1


class HashingQueue:
    """At most `threads` hashes at once; `waiting` more logins wait for theirs to begin, for a second at most.

    Its methods raise ServiceUnavailable if too many wait at the moment.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._places = threading.BoundedSemaphore(threads + waiting)
        self._pool = ThreadPoolExecutor(threads, "hashing", initializer=_lower_priority)

    def is_correct(self, password: str, encoded: str) -> bool:
        """Whether this is the password of the hash."""
        return self._run(lambda: check_password(password, encoded), WAIT_SECONDS)

    def hash(self, password: str) -> str:
        """The hash to store of a new password."""
        return self._run(lambda: make_password(password), PATIENT_SECONDS)

    def _run(self, compute: Callable[[], T], seconds: float) -> T:
        if not self._places.acquire(blocking=False):
            raise ServiceUnavailable(TOO_MANY_LOGINS, retry_after=1)
        try:
            future = self._pool.submit(compute)
            try:
                return future.result(seconds)
            except FutureTimeout:
                if future.cancel():  # it has not begun
                    raise ServiceUnavailable(TOO_MANY_LOGINS, retry_after=1) from None
                return future.result()
        finally:
            self._places.release()


def has_several_lanes(encoded: str) -> bool:
    """Whether Argon2 starts threads of its own to check a password against this hash."""
    return bool(OneLaneHasher().decode(encoded)["params"].parallelism > OneLaneHasher.parallelism)


def _lower_priority() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux has priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


hashing_queue = HashingQueue(THREADS, MAX_WAITING)
