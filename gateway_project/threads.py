"""Threads for requests, of which the one that was busy last works next.

With 32 requests in flight the same 32 threads work, and find their stacks in the processor's caches. The library's
pool goes round: after a wave of a thousand requests each of a thousand threads has its turn, and a request costs more.
"""

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger("gateway.threads")

LOOK_EVERY_SECONDS = 0.02


class Threads:
    """At most so many, made when they are needed; each calls `begin` first.

    They end with their process, which waits at its exit for the tasks that it has still to do.
    """

    def __init__(self, most: int, name: str, begin: Callable[[], None] | None = None) -> None:
        self._most, self._name, self._begin = most, name, begin
        self._lock = threading.Lock()  # of what follows
        self._idle: list[_Thread] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._made = 0
        atexit.register(self.finish)

    def submit(self, task: Callable[[], None]) -> None:
        """Have it done as soon as a thread is free. Raises RuntimeError where not a single one can be made."""
        with self._lock:
            thread = self._idle.pop() if self._idle else self._new()
            if thread is None:
                self._waiting.append(task)
                return
        thread.do(task)

    def finish(self) -> None:
        """Return when nothing is left to do."""
        while self._waiting or len(self._idle) < self._made:
            time.sleep(LOOK_EVERY_SECONDS)

    def shutdown(self, *, wait: bool) -> None:
        """What gunicorn says at the end to a pool whose idle threads would keep the process alive."""

    def next_task(self, thread: "_Thread") -> Callable[[], None] | None:
        """What waits for a thread; without anything this one is idle."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(thread)
            return None

    def _new(self) -> "_Thread | None":
        if self._made == self._most:
            return None
        thread = _Thread(self, f"{self._name}-{self._made}", self._begin)
        try:
            thread.start()
        except RuntimeError:  # the system has no more of them
            if self._made:
                return None
            raise
        self._made += 1
        return thread


class _Thread(threading.Thread):
    """Does one task after the other, and waits between them."""

    def __init__(self, pool: Threads, name: str, begin: Callable[[], None] | None) -> None:
        super().__init__(name=name, daemon=True)
        self._pool, self._begin = pool, begin
        self._task: Callable[[], None] | None = None
        self._called = threading.Lock()  # held while there is nothing to do
        self._called.acquire()

    def do(self, task: Callable[[], None]) -> None:
        self._task = task
        self._called.release()

    def run(self) -> None:
        if self._begin is not None:
            self._begin()
        while True:
            self._called.acquire()
            task, self._task = self._task, None
            while task is not None:
                _do(task)
                task = self._pool.next_task(self)


def _do(task: Callable[[], None]) -> None:
    try:
        task()
    except BaseException:  # nothing that a request raises ends its thread
        log.exception("A task failed.")
