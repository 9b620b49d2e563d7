"""One call to a provider as others may see it: its deadline, and the way to end it from another thread."""

import math
import socket
import threading
import time
from contextlib import suppress
from enum import Enum


class End(Enum):
    """Why a call was ended by somebody else than its provider."""

    CLIENT_CLOSED = "the client went away"
    CONNECT = "did not accept a connection in time"
    FIRST_BYTE = "did not begin to answer in time"
    IDLE = "fell silent in the middle of its answer"
    ATTEMPT = "did not finish its answer in the time that it has"
    TOTAL = "did not finish its answer in time"
    BODY = "the request did not arrive in time"
    STOPPING = "the gateway is stopping"


class Interrupted(Exception):
    """The call was ended from outside; `end` says why."""

    def __init__(self, end: End) -> None:
        super().__init__(end.value)
        self.end = end


class Call:
    """The span in which one request waits for providers; a watcher enforces its deadlines and its client's presence.

    Sockets stay blocking and without Python time-outs, which would cost a system call for every read:
    whoever wants the call to end shuts its socket down, which wakes the reading thread.
    """

    __slots__ = (
        "_lock",
        "_socket",
        "attempt_deadline",
        "client",
        "end",
        "idle_seconds",
        "patience_seconds",
        "phase",
        "since",
        "started",
        "total_deadline",
    )

    def __init__(self, *, client: socket.socket | None, total_seconds: float) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.client = client
        self.started = self.since = time.monotonic()
        self.total_deadline = self.started + total_seconds
        self.attempt_deadline = math.inf
        self.phase = End.TOTAL
        self.patience_seconds = self.idle_seconds = total_seconds
        self.end: End | None = None

    def expect(self, phase: End, seconds: float) -> None:
        """From now on the provider has this long for what comes next."""
        self.since, self.phase, self.patience_seconds = time.monotonic(), phase, seconds

    def attempt(self, seconds: float) -> None:
        """The provider that is tried now has this long for all of its answer."""
        self.attempt_deadline = time.monotonic() + seconds

    def heard(self) -> None:
        """The provider sent something: its silence counts anew."""
        self.since, self.phase, self.patience_seconds = time.monotonic(), End.IDLE, self.idle_seconds

    def overdue(self, now: float) -> End | None:
        """What the call has waited for too long at this moment, None while it may wait on."""
        if now >= self.total_deadline:
            return End.TOTAL
        if now >= self.attempt_deadline:
            return End.ATTEMPT
        return self.phase if now - self.since >= self.patience_seconds else None

    def shorten(self, total_seconds: float) -> None:
        """The whole call may take no longer than this, counted from its start."""
        self.total_deadline = min(self.total_deadline, self.started + total_seconds)

    def remaining(self) -> float:
        return min(self.total_deadline, self.attempt_deadline) - time.monotonic()

    def attach(self, sock: socket.socket) -> None:
        """This socket now works for the call. Raises Interrupted where the call has ended already."""
        with self._lock:
            if self.end is None:
                self._socket = sock
        self.check()

    def detach(self) -> None:
        """The socket is no longer the call's: nobody will shut it down any more."""
        with self._lock:
            self._socket = None

    def interrupt(self, end: End) -> None:
        """End the call from another thread: its reader wakes up at once."""
        with self._lock:
            self.end = self.end or end
            if self._socket is not None:
                with suppress(OSError):
                    # The base class's: that of a TLS socket would tear down what the reader is using.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def try_again(self) -> bool:
        """Whether the call may go on with another provider, after the last one used up its own time."""
        with self._lock:
            if self.end in (End.CONNECT, End.FIRST_BYTE, End.IDLE, End.ATTEMPT):
                self.end = None
            self.attempt_deadline = math.inf
            self.phase, self.patience_seconds = End.TOTAL, math.inf
            return self.end is None

    def check(self) -> None:
        """Raises Interrupted where the call has been ended."""
        if self.end is not None:
            raise Interrupted(self.end)
