"""Reads request bodies, within limits on the size of one body and on the memory of all."""

import threading
from collections.abc import Callable
from typing import Any

from gateway_project.errors import GatewayError, PayloadTooLarge, ServiceUnavailable, ValidationError
from gateway_project.server import overload

MAX_MANAGEMENT_BYTES = 1024 * 1024  # of a body that is not a work request
MIN_BYTES_PER_SECOND = 64 * 1024
# Added to the time-out of the whole body: a client that sends nothing more reaches the time-out of a read first.
GRACE_SECONDS = 2
# Below this size no memory is reserved: few bodies are longer, and a reservation takes a lock.
UNRESERVED_BYTES = 64 * 1024
READ_BYTES = 256 * 1024


class MemoryBudget:
    """The memory that long bodies in flight may use together, in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._reserved = 0
        self._lock = threading.Lock()

    def reserve(self, size: int) -> None:
        """Reserve this many bytes until they are released. Raises ServiceUnavailable if they are not available."""
        with self._lock:
            if self._reserved + size > self._max_bytes:
                raise ServiceUnavailable("The gateway is overloaded: too many large requests are in progress.")
            self._reserved += size

    def release(self, size: int) -> None:
        with self._lock:
            self._reserved -= size


def body_timeout(environ: dict[str, Any], max_bytes: int, client_seconds: float) -> float:
    """Seconds for the whole body to arrive; `client_seconds` is the time-out of a single read."""
    length = environ.get("CONTENT_LENGTH") or ""
    size = min(int(length), max_bytes) if length.isdecimal() else max_bytes
    return client_seconds + GRACE_SECONDS + size / MIN_BYTES_PER_SECOND


def read_body(environ: dict[str, Any], max_bytes: int, reserve: Callable[[int], None] = lambda _: None) -> bytes:
    """The request's body, with a Content-Length or chunked; `reserve` is called with each size that a long one adds.

    Raises PayloadTooLarge, ValidationError, and what `reserve` raises.
    """
    length = environ.get("CONTENT_LENGTH") or ""
    if length and (not length.isdecimal() or int(length) > max_bytes):
        raise _too_large(max_bytes)
    if not length and "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
        return _read_chunked(environ, max_bytes, reserve)
    if not (size := int(length or 0)):
        return b""
    if size > UNRESERVED_BYTES:
        reserve(size)
    body = _read(environ, size)
    if len(body) < size:
        raise ValidationError("The body is shorter than its Content-Length.")
    return body


def _read_chunked(environ: dict[str, Any], max_bytes: int, reserve: Callable[[int], None]) -> bytes:
    pieces, size = [_read(environ, UNRESERVED_BYTES)], 0
    while pieces[-1]:
        size += len(pieces[-1])
        if size > max_bytes:
            raise _too_large(max_bytes)
        if size > UNRESERVED_BYTES:
            reserve(len(pieces[-1]))
        pieces.append(_read(environ, READ_BYTES))
    return b"".join(pieces)


def _read(environ: dict[str, Any], size: int) -> bytes:
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
