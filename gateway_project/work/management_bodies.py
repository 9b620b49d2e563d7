"""The bodies of requests that are no work: they are read before anybody knows who sends them."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from time import monotonic
from typing import Any

from gateway_project.bodies import FREE_BYTES, MOST_MANAGING_BYTES, Room, patience, read_body
from gateway_project.errors import ServiceUnavailable
from gateway_project.work.gateway import Gateway
from providers.calls import Call

ROOM_BYTES = 64 * MOST_MANAGING_BYTES  # for all of them at one moment
CONSOLE = "/admin"


class ManagementBodies:
    """Bounds each of them in time, and all of them in threads and memory: the rest of the process is for work."""

    def __init__(self, most_at_once: int, gateway: Callable[[], Gateway]) -> None:
        self.readers = threading.BoundedSemaphore(most_at_once)
        self.room = Room(ROOM_BYTES)
        self.gateway = gateway

    @contextmanager
    def bounding(self, environ: dict[str, Any]) -> Iterator[None]:
        """Inside this block a request's body is read within the bounds; that of a form of the console is read at once.

        For Django would put into files what a form uploads, however much that is. Raises what read_body() does.
        """
        body = environ["wsgi.input"] = _Body(self, environ)
        try:
            if environ["PATH_INFO"].startswith(CONSOLE):
                environ["wsgi.input"] = BytesIO(read_body(environ, MOST_MANAGING_BYTES))
            yield
        finally:
            self.room.give_back(body.held)


class _Body:
    """Stands in front of wsgi.input."""

    def __init__(self, bounds: ManagementBodies, environ: dict[str, Any]) -> None:
        self._bounds, self._environ = bounds, environ
        self._source = environ["wsgi.input"]
        self._call = Call(client=environ.get("gunicorn.socket"), total_seconds=math.inf)
        self._until = 0.0  # set by the first read
        self.held = 0

    def read(self, size: int = -1) -> bytes:
        """As many bytes, or all that there are. Raises ServiceUnavailable."""
        return self._bounded(self._source.read, size)

    def readline(self, size: int = -1) -> bytes:
        """The same up to the end of a line."""
        return self._bounded(self._source.readline, size)

    def _bounded(self, read: Callable[[int], bytes], size: int) -> bytes:
        if not self._bounds.readers.acquire(blocking=False):
            raise ServiceUnavailable("The gateway is full: it waits for too many requests to arrive.")
        try:
            self._hold(size)
            return self._in_time(read, size)
        finally:
            self._bounds.readers.release()

    def _hold(self, size: int) -> None:
        if size > FREE_BYTES:
            self._bounds.room.take(size)
            self.held += size

    def _in_time(self, read: Callable[[int], bytes], size: int) -> bytes:
        if self._call.client is None:
            return read(size)
        gateway, now = self._bounds.gateway(), monotonic()
        self._until = self._until or now + patience(self._environ, MOST_MANAGING_BYTES, gateway.client_seconds)
        with gateway.watcher.arriving(self._call, self._until - now):
            return read(size)
