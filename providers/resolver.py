"""Host names to addresses, within a time: the system's resolver takes its own, and cannot be interrupted."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

Found = list[tuple]


class Resolver:
    """Looks each name up in a thread of its own; who asks for the same one meanwhile waits for the same answer.

    A name server that is silent thus costs one thread for each host of a provider, however many requests wait.
    """

    def __init__(self, look_up: Callable[[str, int], Found] | None = None) -> None:
        self._look_up = look_up or _system
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[Found]] = {}

    def addresses(self, host: str, port: int, *, timeout: float) -> Found:
        """What getaddrinfo() finds for a stream. Raises OSError as it does, and TimeoutError."""
        with suppress(socket.gaierror):  # an address as it stands needs no name server
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return self._lookup(host, port).result(timeout)

    def _lookup(self, host: str, port: int) -> "Future[Found]":
        with self._lock:
            lookup = self._running.get((host, port))
            if lookup is None:
                lookup = self._running[host, port] = Future()
                threading.Thread(target=self._run, args=(host, port, lookup), name="resolver", daemon=True).start()
        return lookup

    def _run(self, host: str, port: int, lookup: "Future[Found]") -> None:
        found, failure = [], None
        try:
            found = self._look_up(host, port)
        except BaseException as error:  # it belongs to those who wait, whatever it is
            failure = error
        with self._lock:
            del self._running[host, port]
        if failure is None:
            lookup.set_result(found)
        else:
            lookup.set_exception(failure)


def _system(host: str, port: int) -> Found:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
