"""Single flight: of identical requests at one moment, one asks the provider and the others get its result."""

import math
import threading
import time
from dataclasses import dataclass, field
from random import getrandbits
from typing import NamedTuple

from gateway_project.errors import GatewayError
from gateway_project.work.limits import NOTHING_HELD, Settlement
from gateway_project.work.state import SharedState
from providers.calls import Call

SLICE_SECONDS = 0.2
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.02, 0.25
RENEW_EVERY_SECONDS = 3.0


@dataclass(slots=True)
class Flight:
    """One request that asks the provider for many; `token` proves to the shared state that it is the one."""

    key: str
    token: str
    air: threading.Lock = field(default_factory=threading.Lock)  # held until it lands; an Event takes 1 KB
    value: bytes | None = None
    error: GatewayError | None = None


class Following(NamedTuple):
    """How a request waits for another's answer: the token that it claims the flight with if that one gives up."""

    token: str
    flight: Flight | None = None  # where this process leads it, once that is known


class StillFlying(Exception):
    """The answer that is waited for has not come yet; whoever waits may go on, with the flight that it knows."""

    def __init__(self, flight: Flight | None) -> None:
        super().__init__()
        self.flight = flight


class Flights:
    """The flights that this process leads, and the waiting of those that follow."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._led: dict[str, Flight] = {}
        self._renewed = time.monotonic()

    def token(self) -> str:
        """What to claim a flight with."""
        return f"{getrandbits(64):016x}"

    def lead(self, key: str, token: str) -> Flight:
        """This request now leads; it must land the flight, whatever happens."""
        flight = Flight(key, token)
        flight.air.acquire()
        self._led[key] = flight
        return flight

    def land(
        self,
        flight: Flight,
        value: bytes | None,
        seconds: int,
        error: GatewayError | None = None,
        settlement: Settlement = NOTHING_HELD,
    ) -> None:
        """End a flight: with a value to keep and hand on, with an error to hand on, or with neither.

        In the same round trip what the request held is settled.
        """
        flight.value, flight.error = value, error
        try:
            if value is not None and seconds > 0:
                self._state.store(flight.key, value, seconds, flight.token, settlement)
            else:
                self._state.release(flight.key, flight.token, settlement)
        finally:  # or it would be renewed, and waited for, for ever
            if self._led.get(flight.key) is flight:
                del self._led[flight.key]
            flight.air.release()

    def follow(self, key: str, call: Call, seconds: float = math.inf, flight: Flight | None = None) -> bytes | None:
        """Wait for the answer that another request is getting; None when that one gave up.

        Raises the error that the leading request met in this process, Interrupted when our own client left, and
        StillFlying after so many seconds.
        """
        wait, until = FIRST_LOOK_SECONDS, time.monotonic() + seconds
        while True:
            call.check()
            if time.monotonic() > until:
                raise StillFlying(flight)
            flight = flight or self._led.get(key)  # kept: it may land, and be gone from here, while nobody waits
            if flight is None:  # it is led by another process, or has just ended
                value, flying = self._state.look(key)
                if value is not None or not flying:
                    return value
                time.sleep(wait)
                wait = min(wait * 1.5, LONGEST_LOOK_SECONDS)
            elif flight.air.acquire(timeout=SLICE_SECONDS):
                flight.air.release()  # for the next one who waits
                if flight.error is not None:
                    raise flight.error
                return flight.value

    def renew(self) -> None:
        """Tell the shared state that the flights of this process are still in the air."""
        if self._led and time.monotonic() - self._renewed > RENEW_EVERY_SECONDS:
            self._renewed = time.monotonic()
            for flight in list(self._led.values()):
                self._state.renew(flight.key, flight.token)
