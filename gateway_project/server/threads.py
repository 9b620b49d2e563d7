"""A thread pool for requests that reuses the most recently used thread first.

With 32 requests in flight the same 32 threads work, and their stacks stay in the processor's caches. The standard
library's pool takes turns: after a wave of a thousand requests it uses a thousand threads, and a request costs more.
"""

import atexit
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("gateway.threads")

POLL_SECONDS = 0.02
started_threads: Counter[str] = Counter()  # by the pool's name; none of them ends before the process


class LifoThreadPool:
    """At most `max_threads`, started on demand; each calls `initializer` first.

    The threads are daemons, but the process waits at its exit for all submitted tasks.
    """

    def __init__(self, max_threads: int, name: str, initializer: Callable[[], None] | None = None) -> None:
        self._max_threads, self._name, self._initializer = max_threads, name, initializer
        self._lock = threading.Lock()  # guards the following
        self._idle: list[_Thread] = []
        self._queue: deque[Callable[[], None]] = deque()
        self._started = 0
        self._is_refused = False  # whether the system refused a thread since one was idle
        atexit.register(self.wait)

    def submit(self, task: Callable[[], None]) -> None:
        """Run the task as soon as a thread is free. Raises RuntimeError if not a single thread can be started."""
        with self._lock:
            thread = self._idle.pop() if self._idle else self._new()
            if thread is None:
                self._queue.append(task)
                return
        thread.wake(task)

    @property
    def has_room(self) -> bool:
        """Whether a thread is free, or can still be started."""
        return bool(self._idle) or (self._started < self._max_threads and not self._is_refused)

    def start(self) -> None:
        """Start all threads now: later, when they are needed, the system may refuse them."""
        with self._lock:
            while (thread := self._new()) is not None:
                self._idle.append(thread)

    def wait(self) -> None:
        """Return when all tasks are done."""
        while self._queue or len(self._idle) < self._started:
            time.sleep(POLL_SECONDS)

    def shutdown(self, *, wait: bool) -> None:
        """Do nothing: gunicorn calls this for pools whose idle threads keep the process alive; these are daemons."""

    def next_task(self, thread: "_Thread") -> Callable[[], None] | None:
        """The next task in the queue; None, and the thread counts as idle, if the queue is empty."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._idle.append(thread)
            self._is_refused = False
            return None

    def _new(self) -> "_Thread | None":
        if self._started == self._max_threads:
            return None
        thread = _Thread(self, f"{self._name}-{self._started}", self._initializer)
        try:
            thread.start()
        except RuntimeError:  # the system refuses another thread
            self._is_refused = True
            if self._started:
                return None
            raise
        self._started += 1
        started_threads[self._name] += 1
        return thread


class _Thread(threading.Thread):
    """Runs one task after the other, and sleeps between them."""

    def __init__(self, pool: LifoThreadPool, name: str, initializer: Callable[[], None] | None) -> None:
        super().__init__(name=name, daemon=True)
        self._pool, self._initializer = pool, initializer
        self._task: Callable[[], None] | None = None
        self._wakeup = threading.Lock()  # held while there is nothing to do
        self._wakeup.acquire()

    def wake(self, task: Callable[[], None]) -> None:
        self._task = task
        self._wakeup.release()

    def run(self) -> None:
        if self._initializer is not None:
            self._initializer()
        while True:
            self._wakeup.acquire()
            task, self._task = self._task, None
            while task is not None:
                _run(task)
                task = self._pool.next_task(self)


def _run(task: Callable[[], None]) -> None:
    try:
        task()
    except BaseException:  # no exception of a task may end the thread
        log.exception("A task failed.")


# By thread; a threading.local would keep a dictionary for each of a thousand threads.
_waits: dict[int, tuple[float, float]] = {}


def note_wait(submitted_at: float, started_at: float) -> None:
    """Note since when and until when what this thread serves now has waited for it, by time.perf_counter()."""
    _waits[threading.get_ident()] = submitted_at, started_at


def take_wait() -> tuple[float, float] | None:
    """The span of note_wait(), once; None if no server's thread serves the request."""
    return _waits.pop(threading.get_ident(), None)


@dataclass(slots=True)
class CompletedRequest:
    """The outcome of a request, with the methods of a Future that gunicorn calls."""

    keep: object  # whether the connection stays open
    error: BaseException | None = None

    def cancelled(self) -> bool:
        return False

    def result(self) -> object:
        if self.error is not None:
            raise RuntimeError("a request failed outside its view") from self.error
        return self.keep
