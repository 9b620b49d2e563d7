"""Reads request bodies, within limits on the size of one body and on the memory of all."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from wsgiref.types import WSGIEnvironment

from gateway_project.errors import GatewayError, PayloadTooLarge, ServiceUnavailable, ValidationError
from gateway_project.server import overload

MAX_MANAGEMENT_BYTES = 1024 * 1024  # of a body that is not a work request
MAX_LIST_BYTES = 4 * 1024 * 1024  # of one that may have a list of 100,000 words in it
# Added to the time-out of the whole body: a client that sends nothing more reaches the time-out of a read first.
GRACE_SECONDS = 2
# Below this size no memory is reserved: few bodies are longer, and a reservation takes a lock.
UNRESERVED_BYTES = PIECE_BYTES = 64 * 1024
OWNERS_SHARE = 4  # one caller gets at most a quarter of the memory and of the threads that wait for bodies
# At most an eighth of the threads wait for heads, another eighth for bodies, and a third eighth for slow readers.
SLOW_SHARE = 8
PLACE_SECONDS = 1.0
# So much of a longer body has to arrive before a thread waits for the rest; every socket's buffer has room for it.
READY_BYTES = 16 * 1024

Read = Callable[[], bytes]
# Reads a piece in time; the second argument is the size of the body with this piece.
TimedRead = Callable[[Read, int], bytes]


class MemoryBudget:
    """The memory that long bodies in flight may use together, and those of one caller, in bytes."""

    def __init__(self, max_bytes: int, max_owner_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._max_owner_bytes = max_bytes if max_owner_bytes is None else max_owner_bytes
        self._reserved = 0
        self._by_owner: Counter[object] = Counter()
        self._lock = threading.Lock()

    def reserve(self, size: int, owner: object = None) -> None:
        """Reserve this many bytes until they are released. Raises ServiceUnavailable if they are not available."""
        with self._lock:
            if self._reserved + size > self._max_bytes:
                raise ServiceUnavailable("The gateway is overloaded: too many large requests are in progress.")
            if self._by_owner[owner] + size > self._max_owner_bytes:
                raise ServiceUnavailable("Too many of your large requests are in progress. Send fewer at once.")
            self._reserved += size
            self._by_owner[owner] += size

    def release(self, size: int, owner: object = None) -> None:
        with self._lock:
            self._reserved -= size
            self._by_owner[owner] -= size
            if not self._by_owner[owner]:
                del self._by_owner[owner]


class UploadPlaces:
    """The threads that wait for bodies of one caller: at most so many, so that others have some of those that may.

    More uploads of a caller wait a moment for one of them: those of an honest one arrive quickly.
    """

    def __init__(self, per_owner: int) -> None:
        self._per_owner = per_owner
        self._by_owner: Counter[object] = Counter()
        self._freed = threading.Condition()

    @contextmanager
    def place(self, owner: object) -> Iterator[None]:
        """Within this block the caller has a place. Raises ServiceUnavailable if none is free in time."""
        with self._freed:
            if not self._freed.wait_for(lambda: self._by_owner[owner] < self._per_owner, PLACE_SECONDS):
                raise ServiceUnavailable("Too many of your requests are still arriving. Send fewer at once.")
            self._by_owner[owner] += 1
        try:
            yield
        finally:
            with self._freed:
                self._by_owner[owner] -= 1
                if not self._by_owner[owner]:
                    del self._by_owner[owner]
                self._freed.notify_all()


def body_timeout(size: int, client_seconds: float, bytes_per_second: int) -> float:
    """Seconds in which so much of a body has to arrive; `client_seconds` is the time-out of a single read."""
    return client_seconds + GRACE_SECONDS + size / bytes_per_second


def too_slow(bytes_per_second: int) -> ValidationError:
    """The error for a body that missed its time-out."""
    return ValidationError(
        f"The body arrived too slowly: after the first seconds it must arrive at {bytes_per_second} bytes per second "
        "or more."
    )


def _read_untimed(read: Read, size: int) -> bytes:
    return read()


def read_body(
    environ: WSGIEnvironment,
    max_bytes: int,
    reserve: Callable[[int], None] = lambda _: None,
    timed: TimedRead = _read_untimed,
) -> bytes:
    """The request's body, with a Content-Length or chunked.

    Before each piece of a long one is read, `reserve` is called with its size: what is announced takes no memory.
    Raises PayloadTooLarge, ValidationError, and what `reserve` and `timed` raise.
    """
    length = environ.get("CONTENT_LENGTH") or ""
    if length and (not length.isdecimal() or int(length) > max_bytes):
        raise _too_large(max_bytes)
    if not length and "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return _read_pieces(environ, max_bytes + 1, reserve, timed, max_bytes)
    if not (size := int(length or 0)):
        return b""
    if size > PIECE_BYTES:
        body = _read_pieces(environ, size, reserve, timed, max_bytes)
    else:
        body = timed(partial(_read, environ, size), size)
    if len(body) < size:
        raise ValidationError("The body is shorter than its Content-Length.")
    return body


def _read_pieces(
    environ: WSGIEnvironment, size: int, reserve: Callable[[int], None], timed: TimedRead, max_bytes: int
) -> bytes:
    """Up to `size` bytes, or all of a body that is shorter."""
    pieces, read_bytes = [], 0
    while read_bytes < size:
        step = min(PIECE_BYTES, size - read_bytes)
        if read_bytes:
            reserve(step)
        piece = timed(partial(_read, environ, step), read_bytes + step)
        read_bytes += len(piece)
        pieces.append(piece)
        if read_bytes > max_bytes:
            raise _too_large(max_bytes)
        if len(piece) < step:
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read(environ: WSGIEnvironment, size: int) -> bytes:
    try:
        return environ["wsgi.input"].read(size)
    except GatewayError:
        raise
    except Exception as error:  # servers raise different errors when a client stops in the middle
        if overload.is_overloaded():
            raise ServiceUnavailable("The gateway is overloaded and stopped waiting for the request body.") from error
        raise ValidationError("The body did not arrive completely and in time.") from error


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {max_bytes} bytes.")
