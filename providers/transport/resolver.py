"""Host names to addresses with a time-out: the system's resolver has none, and cannot be interrupted."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

Found = list[tuple]


class Resolver:
    """Runs each lookup in its own thread; concurrent requests for the same name share one lookup.

    A silent name server thus costs one thread per provider host, however many requests wait.
    """

    def __init__(self, look_up: Callable[[str, int], Found] | None = None) -> None:
        self._look_up = look_up or _system
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], Future[Found]] = {}

    def addresses(self, host: str, port: int, *, timeout: float) -> Found:
        """The result of getaddrinfo() for a TCP connection. Raises OSError as it does, and TimeoutError."""
        with suppress(socket.gaierror):  # a literal address needs no name server
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
        result, failure = [], None
        try:
            result = self._look_up(host, port)
        except BaseException as error:  # raised in the waiting threads
            failure = error
        with self._lock:
            del self._running[host, port]
        if failure is None:
            lookup.set_result(result)
        else:
            lookup.set_exception(failure)


def _system(host: str, port: int) -> Found:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
