"""Password hashes are computed by one thread, and few requests wait for it.

One hash takes 100 MB and a core for a tenth of a second. Argon2 releases the interpreter's lock, so this thread can
have a lower priority than those that serve work.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import TypeVar

from django.contrib.auth.hashers import Argon2PasswordHasher, check_password, make_password

from gateway_project.errors import ServiceUnavailable
from gateway_project.server.connections.logins import TOO_MANY_LOGINS

THREADS = 1
MAX_WAITING = 16
WAIT_SECONDS = 1.0
NICENESS = 15
PATIENT_SECONDS = 10.0  # of users and admins who are logged in
ONE_AT_A_TIME = "Another password of this user is being checked or set. Try again in a few seconds."
T = TypeVar("T")


class SingleThreadHasher(Argon2PasswordHasher):
    """Django's Argon2 with one lane: Argon2 starts a thread for each lane, and new threads escape the low priority."""

    parallelism = 1


class HashingQueue:
    """At most `threads` hashes at once; `waiting` more logins wait for theirs to begin, for a second at most.

    Users who are logged in take none of these places: of their hashes one at a time is in the queue, so that a login
    waits for one of them at most. The others wait longer, one of each user.
    Its methods raise ServiceUnavailable if too many wait at the moment.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._places = threading.BoundedSemaphore(threads + waiting)
        self._turn = threading.BoundedSemaphore(1)  # of users who are logged in
        self._owners: set[int] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, "hashing", initializer=_lower_priority)

    def is_correct(self, password: str, encoded: str, *, owner: int | None = None) -> bool:
        """Whether this is the password of the hash; `owner` is the id of the user if they are logged in."""
        check = partial(check_password, password, encoded)
        return self._run_patiently(check, owner) if owner is not None else self._run(check, self._places, WAIT_SECONDS)

    def hash(self, password: str, *, owner: int | None = None) -> str:
        """The hash to store of a new password of this user, or of one that is being created."""
        return self._run_patiently(lambda: make_password(password), owner)

    def _run_patiently(self, compute: Callable[[], T], owner: int | None) -> T:
        with self._only_one_of(owner):
            return self._run(compute, self._turn, PATIENT_SECONDS, PATIENT_SECONDS)

    @contextlib.contextmanager
    def _only_one_of(self, owner: int | None) -> Iterator[None]:
        """Within this block no other hash of this user waits."""
        if owner is None:
            yield
            return
        with self._lock:
            if owner in self._owners:
                raise ServiceUnavailable(ONE_AT_A_TIME, retry_after=1)
            self._owners.add(owner)
        try:
            yield
        finally:
            self._owners.discard(owner)

    def _run(
        self, compute: Callable[[], T], places: threading.Semaphore, seconds: float, place_seconds: float = 0
    ) -> T:
        """The result, if there is a place within `place_seconds` and it begins within `seconds` then."""
        if not places.acquire(timeout=place_seconds):
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
            places.release()


def has_several_lanes(encoded: str) -> bool:
    """Whether Argon2 starts threads of its own to check a password against this hash."""
    return bool(SingleThreadHasher().decode(encoded)["params"].parallelism > SingleThreadHasher.parallelism)


def _lower_priority() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux has priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


hashing_queue = HashingQueue(THREADS, MAX_WAITING)
