"""Stores in the database at once what all processes have logged, so that what reads the tables next misses nothing.

Any process asks, all of them ship their journals and report it. Without Redis there is one process.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from telemetry.journal.shipping import Shipper

CHECK_SECONDS = 0.05
# A process that was killed counts as live for ten seconds; meanwhile nobody reports for it.
WAIT_SECONDS = 15.0
OWN_SECONDS = 5.0


class ShippingRequests(Protocol):
    """Requests to ship, and who has answered them. No method raises because the store is down."""

    def add(self) -> int | None:
        """Ask all processes to ship; the request's number, None if they cannot be asked."""

    def latest(self) -> int | None:
        """The number of the latest request; None if there is none, or it is not known."""

    def report(self, number: int) -> bool:
        """Say that this process has stored what it had logged when it saw the request; False if that failed."""

    def are_reported(self, number: int) -> bool:
        """Whether every live process has reported this request, or a later one."""

    def leave(self) -> None:
        """This process ends: nobody waits for it any more."""


class OneProcess:
    """The requests of the only process: there is nobody else to ask."""

    def add(self) -> int | None:
        return 0

    def latest(self) -> int | None:
        return None

    def report(self, number: int) -> bool:
        return True

    def are_reported(self, number: int) -> bool:
        return True

    def leave(self) -> None:
        """Nothing to do."""


class PromptShipping:
    """The part of one process: it answers the requests of all, in the background, and makes its own."""

    def __init__(self, requests: ShippingRequests, shipper: "Shipper") -> None:
        self._requests = requests
        self._shipper = shipper
        self._number: int | None = None  # of the latest request that was seen
        self._seen_at = 0.0
        self._is_reported = True

    def answer_requests(self) -> None:
        """Ship when a request is new, and report once that is done; called several times a second."""
        latest = self._requests.latest()
        if latest is not None and latest != self._number:  # also a lower one: Redis may have lost the counter
            self._number, self._seen_at, self._is_reported = latest, self._shipper.ship_soon(), False
        if not self._is_reported and self._shipper.has_stored_all(self._seen_at):
            assert self._number is not None
            self._is_reported = self._requests.report(self._number)

    def ship_everything(self) -> bool:
        """Whether all that any process has logged before this call is in the database now."""
        started_at = self._shipper.ship_soon()
        return wait_for_reports(self._requests, lambda: self._shipper.has_stored_all(started_at))

    def ship_soon(self, seconds: float) -> bool:
        """Whether this process has stored what it and the dead ones of this machine had logged.

        The other processes have so many seconds to report the same.
        """
        started_at, number = self._shipper.ship_soon(), self._requests.add()
        while time.monotonic() < started_at + OWN_SECONDS:
            is_late = time.monotonic() > started_at + seconds
            if self._shipper.has_stored_all(started_at) and (is_late or self._are_reported(number)):
                return True
            time.sleep(CHECK_SECONDS)
        return False

    def _are_reported(self, number: int | None) -> bool:
        return number is not None and self._requests.are_reported(number)


def wait_for_reports(requests: ShippingRequests, is_own_done: Callable[[], bool] = lambda: True) -> bool:
    """Ask all processes to ship and wait until they have; False if one has not in WAIT_SECONDS."""
    number, deadline = requests.add(), time.monotonic() + WAIT_SECONDS
    while number is not None and time.monotonic() < deadline:
        if is_own_done() and requests.are_reported(number):
            return True
        time.sleep(CHECK_SECONDS)
    return False
