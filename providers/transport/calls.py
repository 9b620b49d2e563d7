"""One call to providers: its deadlines, and how another thread interrupts it."""

import math
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

USAGE_SECONDS = 2.0  # that a provider has to report the usage of an answer whose client has gone


class End(Enum):
    """Why a call was ended by something other than its provider."""

    CLIENT_CLOSED = "the client went away"
    CONNECT = "did not accept a connection in time"
    FIRST_BYTE = "did not begin to answer in time"
    IDLE = "stopped sending in the middle of its answer"
    ATTEMPT = "did not complete its answer in the time allowed for one provider"
    TOTAL = "did not complete its answer in time"
    BODY = "the request did not arrive in time"
    STOPPING = "the gateway is stopping"
    REVOKED = "the credential of the request was revoked"
    OUTPACED = "did not begin to answer before another provider did"


@dataclass(slots=True)
class AttemptTimes:
    """When the steps of one sending ended, by time.perf_counter(); 0: not reached, or not needed."""

    connect_begun: float = 0.0  # 0: on a kept connection
    connected: float = 0.0
    tls_ended: float = 0.0
    first_byte: float = 0.0  # status and headers are here
    first_token: float = 0.0  # of a stream: its first text is here
    last_token: float = 0.0  # the last piece of the answer is here


class Interrupted(Exception):
    """The call was ended from outside; `end` says why."""

    def __init__(self, end: End) -> None:
        super().__init__(end.value)
        self.end = end


class Call:
    """The time that one request waits for providers; the watcher enforces its deadlines and its client's presence.

    Sockets stay blocking and without Python time-outs, which would cost a system call per read. To end a call, another
    thread shuts its socket down, which wakes the reading thread.
    """

    __slots__ = (
        "_has_all_but_usage",
        "_lock",
        "_paused_since",
        "_socket",
        "alarm",
        "attempt_deadline",
        "client",
        "end",
        "idle_seconds",
        "is_abandoned",
        "owner",
        "phase",
        "started",
        "timeout_seconds",
        "times",
        "total_deadline",
        "waiting_since",
        "wake",
    )

    def __init__(self, *, client: socket.socket | None, total_seconds: float) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._paused_since: float | None = None
        self.client = client
        self.started = self.waiting_since = time.monotonic()
        self.total_deadline = self.started + total_seconds
        self.attempt_deadline = math.inf
        self.phase = End.TOTAL
        self.timeout_seconds = self.idle_seconds = total_seconds
        self.end: End | None = None
        self.is_abandoned = False  # whether its client has gone and only the usage is waited for
        self.owner: object = None  # whose request it serves, for those who end calls by that
        self._has_all_but_usage: Callable[[], bool] | None = None
        self.times: AttemptTimes | None = None  # of the present attempt
        self.alarm: tuple[float, Callable[[], None]] | None = None  # when the watcher calls what, once
        self.wake: Callable[[], None] | None = None  # wakes a thread that waits for something else than a socket

    def expect(self, phase: End, seconds: float) -> None:
        """Start waiting for a phase; `seconds` is its time-out."""
        self.waiting_since, self.phase, self.timeout_seconds = time.monotonic(), phase, seconds

    def attempt(self, seconds: float) -> None:
        """Start an attempt with a provider, which has this long for its whole answer."""
        self.attempt_deadline = time.monotonic() + seconds

    def note_arrival(self) -> None:
        """The provider sent something: restart the idle time-out."""
        self.waiting_since, self.phase, self.timeout_seconds = time.monotonic(), End.IDLE, self.idle_seconds

    def pause(self, client: socket.socket | None) -> None:
        """Stop the provider's time: nobody reads its answer while a client is waited for.

        Nothing happens if the call goes on without this client; None stands for the clients of a shared stream.
        """
        with self._lock:
            if self.client is client and self._paused_since is None:
                self._paused_since = time.monotonic()

    def resume(self) -> None:
        """Let the provider's time go on where pause() has stopped it."""
        with self._lock:
            self._resume()

    def _resume(self) -> None:
        if (since := self._paused_since) is not None:
            waited = time.monotonic() - since
            self.waiting_since += waited
            self.attempt_deadline += waited
            self._paused_since = None

    def note_first_token(self) -> None:
        """Note that the first text of a stream is here."""
        if self.times is not None:
            self.times.first_token = time.perf_counter()

    def note_last_token(self) -> None:
        """Note that what the provider has sent last was the end of its answer."""
        if self.times is not None:
            self.times.last_token = time.perf_counter() - (time.monotonic() - self.waiting_since)

    def overdue(self, now: float) -> End | None:
        """The deadline that has passed at this moment, None if there is none."""
        if now >= self.total_deadline:
            return End.TOTAL
        if self._paused_since is not None:
            return None
        if now >= self.attempt_deadline:
            return End.ATTEMPT
        return self.phase if now - self.waiting_since >= self.timeout_seconds else None

    def shorten(self, total_seconds: float) -> None:
        """Lower the whole call's time limit, counted from its start."""
        self.total_deadline = min(self.total_deadline, self.started + total_seconds)

    def remaining_seconds(self) -> float:
        return min(self.total_deadline, self.attempt_deadline) - time.monotonic()

    def attach(self, sock: socket.socket) -> None:
        """Register the socket that interrupt() shuts down. Raises Interrupted if the call has already ended."""
        with self._lock:
            if self.end is None:
                self._socket = sock
                return
        raise Interrupted(self.end)

    def detach(self) -> None:
        """Forget the socket: interrupt() no longer shuts it down."""
        with self._lock:
            self._socket = None

    def set_alarm(self, seconds: float, ring: Callable[[], None]) -> None:
        """Let the watcher call this once, after so many seconds."""
        self.alarm = time.monotonic() + seconds, ring

    def cancel_alarm(self) -> None:
        self.alarm = None

    def wait(self, seconds: float) -> None:
        """Wait so long. Raises Interrupted as soon as the call ends."""
        ended = threading.Event()
        self.wake = ended.set
        try:
            self.check()
            ended.wait(seconds)
        finally:
            self.wake = None
        self.check()

    def interrupt(self, end: End) -> None:
        """End the call from another thread: its reader wakes up at once."""
        with self._lock:
            self._end_with(end)

    def interrupt_overdue(self, now: float) -> None:
        """End the call if one of its deadlines has passed at this moment."""
        with self._lock:
            if (end := self.overdue(now)) is not None:
                self._end_with(end)

    def outlive_client_if(self, has_all_but_usage: Callable[[], bool]) -> None:
        """Go on for a moment after the client has gone, if by then all of the answer but its usage has arrived."""
        self._has_all_but_usage = has_all_but_usage

    def interrupt_closed(self) -> None:
        """End the call because its client has gone, unless it goes on without that client."""
        if self.client is not None:
            self.abandon()

    def abandon(self) -> bool:
        """End the call because nobody waits for its answer; whether it goes on for a moment, for its usage alone."""
        with self._lock:
            goes_on = self.end is None and self._has_all_but_usage is not None and self._has_all_but_usage()
            if goes_on:
                self._resume()
                self.client, self.is_abandoned = None, True
                self.attempt_deadline = min(self.attempt_deadline, time.monotonic() + USAGE_SECONDS)
            else:
                self._end_with(End.CLIENT_CLOSED)
            return goes_on

    def detach_client(self) -> "Call | None":
        """Let the call go on without its client and the client's deadline; a call for these alone.

        None if the call has already ended.
        """
        with self._lock:
            if self.end is not None:
                return None
            self._resume()
            own = Call(client=self.client, total_seconds=math.inf)
            own.started, own.total_deadline = self.started, self.total_deadline
            self.client, self.total_deadline = None, math.inf
            own.owner, self.owner = self.owner, None
            return own

    def _end_with(self, end: End) -> None:
        self.end = self.end or (End.CLIENT_CLOSED if self.is_abandoned else end)
        if self._socket is not None:
            # A client whose body is late, or whose credential is revoked meanwhile, still gets its answer.
            is_client = self.end is End.BODY or (self.end is End.REVOKED and self._socket is self.client)
            how = socket.SHUT_RD if is_client else socket.SHUT_RDWR
            with suppress(OSError):
                # The base class's method: an SSLSocket's would tear down the TLS state that the reader uses.
                socket.socket.shutdown(self._socket, how)
        if self.wake is not None:
            self.wake()

    def prepare_retry(self) -> bool:
        """Clear a time-out of the last attempt; whether the call may go on with another provider."""
        with self._lock:
            if self.end in (End.CONNECT, End.FIRST_BYTE, End.IDLE, End.ATTEMPT):
                self.end = None
            self.attempt_deadline = math.inf
            self.phase, self.timeout_seconds = End.TOTAL, math.inf
            return self.end is None

    def check(self) -> None:
        """Raise Interrupted if the call has been ended."""
        if self.end is not None:
            raise Interrupted(self.end)
