"""Reading a request's body: whole, within a limit, and within what all bodies at one moment may take."""

import threading
from collections.abc import Callable
from typing import Any

from gateway_project import overload
from gateway_project.errors import GatewayError, PayloadTooLarge, ServiceUnavailable, ValidationError

MAX_MANAGEMENT_BYTES = 1024 * 1024  # in a body that is no work
SLOWEST_BYTES_A_SECOND = 64 * 1024
# A client that stops altogether is told so by the read that runs out of its time: that must come first.
GRACE_SECONDS = 2
# What every request may have without asking: few are longer, and asking takes a lock.
FREE_BYTES = 64 * 1024
PIECE_BYTES = 256 * 1024


class Room:
    """The memory that long bodies in flight may take together, in bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Have so much of it, until it is given back. Raises ServiceUnavailable where it is not there."""
        with self._lock:
            if self._taken + size > self._most:
                raise ServiceUnavailable("The gateway is full: too many long requests are being served.")
            self._taken += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size


def patience(environ: dict[str, Any], most: int, client_seconds: float) -> float:
    """The seconds that a whole body may take to arrive, of a client that may be silent for so many of them."""
    length = environ.get("CONTENT_LENGTH") or ""
    size = min(int(length), most) if length.isdecimal() else most
    return client_seconds + GRACE_SECONDS + size / SLOWEST_BYTES_A_SECOND


def read_body(environ: dict[str, Any], most: int, take: Callable[[int], None] = lambda _: None) -> bytes:
    """The request's body, of a stated length or chunked; `take` is asked for the memory of a long one.

    Raises PayloadTooLarge, ValidationError, and what `take` does.
    """
    length = environ.get("CONTENT_LENGTH") or ""
    if length and (not length.isdecimal() or int(length) > most):
        raise _too_large(most)
    if not length and "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return _read_chunked(environ, most, take)
    if not (size := int(length or 0)):
        return b""
    if size > FREE_BYTES:
        take(size)
    body = _read(environ, size)
    if len(body) < size:
        raise ValidationError("The body is shorter than its Content-Length.")
    return body


def _read_chunked(environ: dict[str, Any], most: int, take: Callable[[int], None]) -> bytes:
    pieces, size = [_read(environ, FREE_BYTES)], 0
    while pieces[-1]:
        size += len(pieces[-1])
        if size > most:
            raise _too_large(most)
        if size > FREE_BYTES:
            take(len(pieces[-1]))
        pieces.append(_read(environ, PIECE_BYTES))
    return b"".join(pieces)


def _read(environ: dict[str, Any], size: int) -> bytes:
    try:
        return environ["wsgi.input"].read(size)
    except GatewayError:
        raise
    except Exception as error:  # servers raise what they like when a client stops in the middle
        if overload.is_overloaded():
            raise ServiceUnavailable("The gateway is full: it waits for no body now.") from error
        raise ValidationError("The body did not arrive whole and in time.") from error


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {most} bytes.")
