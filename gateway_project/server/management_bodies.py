"""Limits on the bodies of management requests, which are read before their sender is authenticated."""

import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from time import monotonic
from typing import Any
from wsgiref.types import WSGIEnvironment

from gateway_project.errors import ServiceUnavailable, UnsupportedMediaType
from gateway_project.server.bodies import (
    MAX_LIST_BYTES,
    MAX_MANAGEMENT_BYTES,
    UNRESERVED_BYTES,
    MemoryBudget,
    Read,
    body_timeout,
    read_body,
)
from gateway_project.server.connections.turns import END_TURN
from gateway_project.server.paths import CONSOLE, USER_PAGES
from gateway_project.work.gateway import Gateway
from providers.transport.calls import Call

MAX_TOTAL_BYTES = 64 * MAX_MANAGEMENT_BYTES  # of all bodies that are being read at the same time
PAGES = (CONSOLE, f"{USER_PAGES}/")
# Pages whose form may be longer. It is read before its sender is known, and counts in the same memory.
LONG_FORMS = f"{CONSOLE}/rules/guardrail/"
SLOW_SHARE = 16  # half of the threads for slow bodies (worker.py): they may wait for bodies of unknown senders
CHARSET, UTF_8 = re.compile(r"charset\s*=\s*[\"']?([^\s;\"']*)", re.IGNORECASE), ("utf-8", "utf8", "us-ascii")
MAX_OWNER_BYTES = MAX_TOTAL_BYTES // 4  # of one address


def refuse_other_charsets(content_type: str) -> None:
    """Raise UnsupportedMediaType for a charset that is not UTF-8: Django would decode the query with any codec, too."""
    charset = CHARSET.search(content_type)
    if charset is not None and charset[1].lower() not in UTF_8:
        raise UnsupportedMediaType("The only charset that is accepted is UTF-8.")


class ManagementBodies:
    """Limits the time of each body, and the threads and memory of all, so that work requests keep theirs.

    `has_arrived` returns whether a wsgi.input can be read without waiting for the client.
    """

    def __init__(self, max_readers: int, gateway: Callable[[], Gateway], has_arrived: Callable[[Any], bool]) -> None:
        self.readers = threading.BoundedSemaphore(max_readers)
        self.memory = MemoryBudget(MAX_TOTAL_BYTES, MAX_OWNER_BYTES)
        self.gateway, self.has_arrived = gateway, has_arrived

    @contextmanager
    def bound_body(self, environ: WSGIEnvironment, *, at_once: bool = False) -> Iterator[None]:
        """Within this block the request's body is read within the limits; a body of the console is read at once.

        Otherwise Django would write uploads of any size to temporary files. Raises the errors of read_body().
        """
        body = environ["wsgi.input"] = _Body(self, environ)
        try:
            if at_once or environ["PATH_INFO"].startswith(PAGES):
                is_long = environ["PATH_INFO"].startswith(LONG_FORMS)
                max_bytes = MAX_LIST_BYTES if is_long else MAX_MANAGEMENT_BYTES
                environ["wsgi.input"] = BytesIO(read_body(environ, max_bytes))
            yield
        finally:
            self.memory.release(body.reserved_bytes, environ.get("REMOTE_ADDR", ""))


class _Body:
    """Replaces wsgi.input. Its methods raise ServiceUnavailable when a limit is reached."""

    def __init__(self, bounds: ManagementBodies, environ: WSGIEnvironment) -> None:
        self._bounds, self._environ = bounds, environ
        self._source = environ["wsgi.input"]
        self._call = Call(client=environ.get("gunicorn.socket"), total_seconds=math.inf)
        self._begun = 0.0  # set by the first read that waits
        self._size = 0
        self.reserved_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; all if it is negative, but at most one byte more than is allowed."""
        return self._read_bounded(partial(self._pieces, size))

    def readline(self, size: int = -1) -> bytes:
        """The next line; up to `size` bytes of it if that is not negative."""
        return self._read_bounded(lambda timed: self._count_piece(timed(partial(self._source.readline, size))))

    def _read_bounded(self, read: Callable[[Callable[[Read], bytes]], bytes]) -> bytes:
        """What `read` returns, which gets the function that reads each piece."""
        if self._bounds.has_arrived(self._source):
            return read(_at_once)
        if not self._bounds.readers.acquire(blocking=False):
            raise ServiceUnavailable("The gateway is overloaded: too many requests are still arriving.")
        if end_turn := self._environ.get(END_TURN):
            end_turn()
        try:
            return read(self._in_time)
        finally:
            self._bounds.readers.release()

    def _in_time(self, read: Read) -> bytes:
        """The next piece, which has to arrive at the minimum rate since the body's begin."""
        if self._call.client is None:
            return read()
        gateway, now = self._bounds.gateway(), monotonic()
        self._begun = self._begun or now
        seconds = body_timeout(self._size + UNRESERVED_BYTES, gateway.client_seconds, gateway.min_body_rate)
        return gateway.read_in_time(self._call, self._begun + seconds - now, read)

    def _pieces(self, size: int, timed: Callable[[Read], bytes]) -> bytes:
        """Read piece by piece: memory is reserved for what has arrived, not for what is announced."""
        remaining_bytes, pieces = size if size >= 0 else MAX_MANAGEMENT_BYTES + 1, []
        while remaining_bytes:
            piece = self._count_piece(timed(partial(self._source.read, min(remaining_bytes, UNRESERVED_BYTES))))
            if not piece:
                break
            pieces.append(piece)
            remaining_bytes -= len(piece)
        return b"".join(pieces)

    def _count_piece(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > UNRESERVED_BYTES:
            self._bounds.memory.reserve(self._size - self.reserved_bytes, self._environ.get("REMOTE_ADDR", ""))
            self.reserved_bytes = self._size
        return piece


def _at_once(read: Read) -> bytes:
    return read()
