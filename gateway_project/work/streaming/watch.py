"""Watches calls in flight, and ends those whose time is up or whose client has gone."""

import logging
import math
import select
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from gateway_project.background import BackgroundThread
from gateway_project.change_feed.cuts import Credential
from gateway_project.work.revocation.cuts import Cuts
from providers.transport.calls import Call, End

log = logging.getLogger("gateway.watch")

TICK_SECONDS = 0.1
# A client's absence matters once a call has taken this long; most calls are over before.
CLIENT_GRACE_SECONDS = 0.2
HANG_UP_EVENTS = select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL


class Watcher(BackgroundThread):
    """One thread for all calls of a process."""

    def __init__(self) -> None:
        super().__init__("watcher", log, every=TICK_SECONDS)
        self.cuts = Cuts()
        self._calls: dict[int, Call] = {}

    @contextmanager
    def watch_call(self, call: Call) -> Iterator[None]:
        """The call is watched inside this block."""
        self.add(call)
        try:
            yield
        finally:
            self.remove(call)

    def watch_arrival(self, call: Call, seconds: float, read: Callable[[], bytes]) -> bytes:
        """What is read of a client; its connection is shut down when so much time is over."""
        client = call.client
        assert client is not None
        call.expect(End.BODY, seconds)
        call.attach(client)
        self.add(call)
        try:
            return read()
        finally:
            self.remove(call)
            call.detach()
            call.expect(End.TOTAL, math.inf)

    def add(self, call: Call) -> None:
        self._calls[id(call)] = call
        if self.cuts.latest:
            self.cuts.apply(call)

    def remove(self, call: Call) -> None:
        self._calls.pop(id(call), None)

    def cut_calls(self, credentials: Collection[Credential]) -> None:
        """End every call of these credentials that has begun."""
        self.cuts.begin(credentials, list(self._calls.values()))

    def interrupt_all(self, end: End) -> None:
        """End every call in flight."""
        for call in list(self._calls.values()):
            call.interrupt(end)

    def run_once(self) -> None:
        """End what has to end and call whom the alarms name, once."""
        calls = list(self._calls.values())
        now = time.monotonic()
        for call in calls:
            if call.end is None and call.overdue(now) is not None:
                call.interrupt_overdue(now)
            if (alarm := call.alarm) is not None and now >= alarm[0]:
                call.alarm = None
                alarm[1]()
        for call in clients_gone([call for call in calls if now - call.started > CLIENT_GRACE_SECONDS]):
            call.interrupt_closed()


def clients_gone(calls: list[Call]) -> list[Call]:
    """The calls whose clients have closed their side of the connection.

    A client that only ends its sending side counts as gone too: from here the two look the same.
    """
    poller, by_number = select.poll(), {}
    for call in calls:
        client = call.client
        if client is not None and call.end is None and (number := client.fileno()) >= 0:
            poller.register(number, HANG_UP_EVENTS)
            by_number[number] = call
    if not by_number:
        return []
    return [by_number[number] for number, event in poller.poll(0) if event & HANG_UP_EVENTS]
