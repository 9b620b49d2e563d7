"""A connection to a provider, and the response that is read from it."""

import fcntl
import os
import select
import socket
import ssl
import struct
import termios
import time
from collections.abc import Callable, Iterator

from gateway_project.errors import GatewayError, ProviderError, ProviderTimeout, UnusableAnswer
from providers.transport.calls import Call, End, Interrupted
from providers.transport.http_response import RESET, HTTPResponse, InvalidResponse, TooLong

IDLE_CONNECTION_SECONDS = 55.0  # below the minute after which many servers and balancers close


class NotReceived(ProviderError):
    """The provider closed a kept connection before it received the request, which may be sent again on a new one."""

    may_have_worked = False


class Connection:
    """A connection to one origin."""

    __slots__ = ("_poller", "_tls", "is_secure", "origin", "sock", "used")

    def __init__(self, origin: str, sock: socket.socket) -> None:
        self.sock = sock
        self._poller = select.poll()  # one for each connection costs less than an attempt to read, which would fail
        self._poller.register(sock, select.POLLIN)
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        self.is_secure = self._tls is not None
        self.origin = origin
        self.used = time.monotonic()

    def is_alive(self) -> bool:
        """Whether an idle connection is still open, with no data on it.

        Unsolicited data would be taken for the response to the next request, which is another client's.
        The check costs a microsecond and is made before every use.
        """
        idle = time.monotonic() - self.used
        return idle <= IDLE_CONNECTION_SECONDS and not self.has_decrypted_bytes() and not self._poller.poll(0)

    def has_decrypted_bytes(self) -> bool:
        """Whether TLS holds bytes that are no longer in the socket."""
        return self._tls is not None and self._tls.pending() > 0

    def is_unacknowledged(self, size: int) -> bool:
        """Whether the peer has acknowledged nothing of the `size` bytes that were written last.

        A FIN acknowledges what its sender had received: if it covers none of the request, the provider closed the
        connection before it could read any of it. A RST acknowledges nothing, but a host that keeps a connection open
        acknowledges what arrives within 0.2 s, most of them within 0.04 s: longer work is never mistaken.
        """
        try:
            (unacknowledged,) = struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)))
        except OSError:  # unknown, then
            return False
        return unacknowledged >= size

    def close(self) -> None:
        self.sock.close()


class ProviderResponse:
    """A provider's response whose status and headers have arrived; the body is still to be read.

    The owner must call close(): it returns the connection to the pool if the response was read to its end, and closes
    it otherwise.
    """

    __slots__ = ("_call", "_connection", "_release", "_response", "headers", "status")

    def __init__(
        self, release: Callable[[Connection], None], connection: Connection, response: HTTPResponse, call: Call
    ) -> None:
        self._connection: Connection | None = connection  # None once it is closed
        self._release, self._response, self._call = release, response, call
        self.status, self.headers = response.status, response.headers

    @property
    def is_complete(self) -> bool:
        """Whether HTTP's framing, rather than the end of the connection, marked the end of the body."""
        return self._response.is_complete

    @property
    def source(self) -> socket.socket:
        """The socket; only pieces() may read from it, and a caller that reports its reads to record_forwarded()."""
        if self._connection is None:
            raise RuntimeError("The response is closed.")
        return self._connection.sock

    @property
    def at_chunk_boundary(self) -> bool:
        """Whether the body is chunked and the next read begins a chunk."""
        return self._response.at_chunk_boundary

    def record_forwarded(self, body_bytes: int, unread: bytes) -> None:
        """Account for whole chunks read from `source`, and for the `unread` bytes that pieces() starts with."""
        self._response.record_forwarded(body_bytes, unread)

    @property
    def has_more(self) -> bool:
        """Whether pieces() can go on although the socket may stay silent: at the end, or with bytes that TLS holds."""
        connection = self._connection
        return self._response.is_complete or (connection is not None and connection.has_decrypted_bytes())

    def limit(self, size: int) -> None:
        """Bound the body to this many bytes."""
        self._response.limit = min(self._response.limit, size)

    def read(self) -> bytes:
        """The whole body. Raises ProviderError, ProviderTimeout or Interrupted."""
        try:
            return self._response.read()
        except (InvalidResponse, OSError) as error:
            raise as_gateway_error(self._call, error) from error
        finally:
            self.close()

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives, b"" for each silence. Raises as read() does; the caller closes."""
        try:
            yield from self._response.pieces()
        except (InvalidResponse, OSError) as error:
            raise as_gateway_error(self._call, error) from error

    def close(self) -> None:
        """Return the connection to the pool, or close it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._call.detach()
        self._response.end()
        if self._response.reusable and self._call.end is None:
            self._release(connection)
        else:
            connection.close()


def as_gateway_error(call: Call, error: Exception) -> GatewayError | Interrupted:
    """The error for a failed read or write: why the watcher ended the call if it did, else the provider's failure."""
    if call.end in (End.CLIENT_CLOSED, End.STOPPING, End.REVOKED, End.OUTPACED):
        return Interrupted(call.end)
    if call.end is not None:
        return ProviderTimeout(f"The provider {call.end.value}.")
    kind = UnusableAnswer if isinstance(error, TooLong) else ProviderError
    return kind(f"The provider failed: {describe_failure(error)}.")


def describe_failure(error: BaseException) -> str:
    """How a provider, or the connection to it, failed, in words for clients.

    None of them come from an exception that may quote an internal name or address, as a certificate's does.
    """
    if isinstance(error, InvalidResponse):
        return str(error)
    if isinstance(error, ConnectionRefusedError):
        return "it refused the connection"
    if isinstance(error, ConnectionResetError):
        return RESET
    if isinstance(error, BrokenPipeError):
        return "it closed the connection while the request was sent"
    if isinstance(error, socket.gaierror):
        return "its host name cannot be resolved"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not accepted"
    if isinstance(error, ssl.SSLError):
        return "TLS failed"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno).lower()
    return "the connection failed"


def explain_failure(error: BaseException) -> str:
    """The same for administrators: with the words of the library where ours are fewer."""
    words = describe_failure(error)
    if isinstance(error, ssl.SSLError) or words == "the connection failed":
        return f"{words} ({type(error).__name__}: {getattr(error, 'strerror', None) or error})"
    return words
