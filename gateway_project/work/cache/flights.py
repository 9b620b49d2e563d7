"""Single flight: of identical concurrent requests one asks the provider, and the others get its result."""

import math
import threading
import time
from dataclasses import dataclass, field
from random import getrandbits
from typing import NamedTuple, Protocol

from gateway_project.errors import GatewayError
from gateway_project.work.limits.checks import NOTHING_HELD, Settlement
from gateway_project.work.state.shared import SharedState, Storing, do_not_wait
from gateway_project.work.streaming.broadcast import Subscription
from providers.transport.calls import Call

CHECK_SECONDS = 0.2
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 0.25
RENEW_EVERY_SECONDS = 3.0


class FollowableStream(Protocol):
    """The stream of the leader, as followers see it (streaming/live_stream.py)."""

    @property
    def has_begun(self) -> bool: ...

    @property
    def is_too_long(self) -> bool: ...

    @property
    def may_be_cached(self) -> bool: ...

    def follow(self, call: Call) -> Subscription | None: ...


@dataclass(slots=True)
class Flight:
    """A request that asks the provider on behalf of others; `token` identifies it as the leader in the shared state."""

    key: str
    token: str
    in_flight: threading.Lock = field(default_factory=threading.Lock)  # held until it has landed; an Event takes 1 KB
    # Held until it can be followed live, or has landed.
    start_lock: threading.Lock = field(default_factory=threading.Lock)
    live: FollowableStream | None = None
    has_begun: bool = False
    has_landed: bool = False
    value: bytes | None = None
    error: GatewayError | None = None


class FlightWait(NamedTuple):
    """How a request waits for another's answer: the token to claim the flight with if the leader gives up."""

    token: str
    flight: Flight | None = None  # once known, and only if this process leads it


class FlightPending(Exception):
    """The awaited answer has not come yet; `flight` is passed to follow() to go on waiting."""

    def __init__(self, flight: Flight | None) -> None:
        super().__init__()
        self.flight = flight


class Flights:
    """The flights that this process leads, and how requests wait for a flight of any process."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._led: dict[str, Flight] = {}
        self._renewed = time.monotonic()

    def token(self) -> str:
        """A random token to claim a flight with."""
        return f"{getrandbits(64):016x}"

    def lead(self, key: str, token: str) -> Flight:
        """Make this request the leader; it must land the flight, whatever happens."""
        flight = Flight(key, token)
        flight.in_flight.acquire()
        flight.start_lock.acquire()
        self._led[key] = flight
        return flight

    def begin(self, flight: Flight, live: FollowableStream) -> None:
        """Let followers in this process join the flight's stream once it has a chunk."""
        flight.live = live
        if live.has_begun:
            flight.has_begun = True
            flight.start_lock.release()

    def land(
        self,
        flight: Flight,
        value: bytes | None,
        seconds: int,
        error: GatewayError | None = None,
        settlement: Settlement = NOTHING_HELD,
    ) -> Storing:
        """End a flight with a value to cache and share, with an error to share, or with neither.

        The same round trip settles what the request held. What is returned waits for it, and has to be called if there
        is a value to cache.
        """
        flight.value, flight.error = value, error
        try:
            if value is not None and seconds > 0:
                return self._state.begin_storing(flight.key, value, seconds, flight.token, settlement)
            self._state.release(flight.key, flight.token, settlement)
            return do_not_wait
        finally:  # otherwise it would be renewed, and waited for, for ever
            if self._led.get(flight.key) is flight:
                del self._led[flight.key]
            flight.has_landed = True
            flight.in_flight.release()
            if not flight.has_begun:  # not locked(): a follower may hold it for a moment
                flight.start_lock.release()

    def follow(
        self, key: str, call: Call, seconds: float = math.inf, flight: Flight | None = None
    ) -> bytes | Subscription | None:
        """Wait for the answer that another request is getting, or for the beginning of its stream.

        None if that request gave up, or if its stream is too long to be followed from the beginning. Raises the error
        that it met in this process, Interrupted when our own client left, and FlightPending after so many seconds.
        """
        wait, until = MIN_POLL_SECONDS, time.monotonic() + seconds
        while True:
            call.check()
            if time.monotonic() > until:
                raise FlightPending(flight)
            flight = flight or self._led.get(key)  # kept: it may land and leave _led between two calls
            if flight is None:  # led by another process, or it has just ended
                value, flying = self._state.peek(key)
                if value is not None or not flying:
                    return value
                time.sleep(wait)
                wait = min(wait * 1.5, MAX_POLL_SECONDS)
            elif flight.has_landed:
                if flight.error is not None:
                    raise flight.error
                return flight.value
            elif flight.live is None or not flight.live.has_begun:
                _wait_for(flight.start_lock)
            elif subscription := flight.live.follow(call):
                return subscription
            elif flight.live.is_too_long:
                self._give_up(flight)
                return None
            else:  # it is about to land
                _wait_for(flight.in_flight)

    def _give_up(self, flight: Flight) -> None:
        """Let another request lead: the leader's answer is for its own client and those who follow already."""
        if self._led.get(flight.key) is flight:
            del self._led[flight.key]
            self._state.release(flight.key, flight.token)

    def renew(self) -> None:
        """Renew this process's flights in the shared state, and give up those whose streams cannot be cached.

        Requests of other processes wait for a stream to be cached, which may take as long as the stream.
        """
        for flight in list(self._led.values()):
            if flight.live is not None and not flight.live.may_be_cached:
                self._give_up(flight)
        if self._led and time.monotonic() - self._renewed > RENEW_EVERY_SECONDS:
            self._renewed = time.monotonic()
            for flight in list(self._led.values()):
                self._state.renew_flight(flight.key, flight.token)


def _wait_for(event: threading.Lock) -> None:
    """Wait until a lock is free, but no longer than until the next check; it stays free."""
    if event.acquire(timeout=CHECK_SECONDS):
        event.release()  # for the next follower
