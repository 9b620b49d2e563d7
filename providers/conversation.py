"""A connection to a provider, and the answer that is read from it."""

import socket
import ssl
import time
from collections.abc import Callable

from gateway_project.errors import GatewayError, ProviderError, ProviderTimeout
from providers.calls import Call, End, Interrupted
from providers.reply import RESET, BadReply, NoReply, Reply

LOOK = socket.MSG_PEEK | socket.MSG_DONTWAIT
IDLE_CONNECTION_SECONDS = 55.0  # below the minute after which many servers and balancers close
# A goodbye that was under way when a request was sent comes within half a round trip, which is 0.2 s around the world;
# the rest is for a busy machine. What comes later may be the end of somebody who has read the request and worked on it.
CROSSING_SECONDS = 0.5


class Crossed(NoReply):
    """The provider had closed the connection before the request reached it whole: it has not worked on it."""


class Line:
    """A connection to one origin."""

    __slots__ = ("is_secure", "origin", "sock", "used")

    def __init__(self, origin: str, sock: socket.socket) -> None:
        self.sock = sock
        self.is_secure = isinstance(sock, ssl.SSLSocket)
        self.origin = origin
        self.used = time.monotonic()

    def alive(self) -> bool:
        """Whether the provider has left an idle connection open, and said nothing on it.

        What it said unasked would be taken for the answer to the next request, which is somebody else's:
        this costs a microsecond, and is asked every time.
        """
        idle = time.monotonic() - self.used
        if idle > IDLE_CONNECTION_SECONDS or (self.is_secure and self.sock.pending()):
            return False  # TLS may hold bytes that the socket does not show any more
        try:
            socket.socket.recv(self.sock, 1, LOOK)  # the base class's: that of a TLS socket takes no flags
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        self.sock.close()


class Conversation:
    """A provider's answer being read: status and headers are there, the body follows.

    Whoever holds one must end it: `close()` gives the connection back if the answer was read to its
    end, and closes it otherwise.
    """

    __slots__ = ("_call", "_keep", "_line", "_reply")

    def __init__(self, keep: Callable[[Line], None], line: Line, reply: Reply, call: Call) -> None:
        self._keep, self._line, self._reply, self._call = keep, line, reply, call

    @property
    def status(self) -> int:
        return self._reply.status

    @property
    def headers(self) -> dict[str, str]:
        return self._reply.headers

    @property
    def settled(self) -> bool:
        """Whether the framing of the answer, rather than the end of the connection, says that it is whole."""
        return self._reply.settled

    @property
    def source(self) -> socket.socket:
        """What the body comes from; only pieces() may read it, and who tells passed() of it."""
        return self._line.sock

    @property
    def is_between(self) -> bool:
        """Whether the body comes in chunks of HTTP, and the next read begins one."""
        return self._reply.is_between

    def passed(self, body_bytes: int, unread: bytes) -> None:
        """Whole chunks with so much of the body were read from the source, and then this, with which pieces() go on."""
        self._reply.passed(body_bytes, unread)

    @property
    def has_more(self) -> bool:
        """Whether pieces() has something to say although the socket may stay silent: the end, or what TLS holds."""
        return self._reply.settled or (self._line.is_secure and self._line.sock.pending() > 0)

    def limit(self, size: int) -> None:
        """Read at most so many bytes of the body."""
        self._reply.limit = min(self._reply.limit, size)

    def read(self) -> bytes:
        """The whole body. Raises ProviderError, ProviderTimeout or Interrupted."""
        try:
            return self._reply.read()
        except (BadReply, OSError) as error:
            raise told(self._call, error) from error
        finally:
            self.close()

    def pieces(self):
        """The body as it arrives, b"" for each silence. Raises as read() does; the caller closes."""
        try:
            yield from self._reply.pieces()
        except (BadReply, OSError) as error:
            raise told(self._call, error) from error

    def close(self) -> None:
        """Give the connection back, or end it."""
        line, self._line = self._line, None
        if line is None:
            return
        self._call.detach()
        self._reply.end()
        if self._reply.reusable and self._call.end is None:
            self._keep(line)
        else:
            line.close()


def read_head(reply: Reply) -> None:
    """Wait for status and headers. Raises Crossed where the end came too soon for the request to have been read."""
    sent = time.monotonic()
    try:
        reply.read_head()
    except NoReply as error:
        if time.monotonic() - sent < CROSSING_SECONDS:
            raise Crossed(str(error)) from error
        raise


def told(call: Call, error: Exception) -> GatewayError | Interrupted:
    """The failure in the words of whoever caused it: the watcher that ended the call, else the provider."""
    if call.end in (End.CLIENT_CLOSED, End.STOPPING):
        return Interrupted(call.end)
    if call.end is not None:
        return ProviderTimeout(f"The provider {call.end.value}.")
    return ProviderError(f"The provider failed: {reason(error)}.")


def reason(error: Exception) -> str:
    """What a provider did, or what became of the way to it, in words for clients and administrators."""
    if isinstance(error, BadReply):
        return str(error)
    if isinstance(error, ConnectionRefusedError):
        return "it refused the connection"
    if isinstance(error, ConnectionResetError):
        return RESET
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    return getattr(error, "strerror", None) or type(error).__name__
