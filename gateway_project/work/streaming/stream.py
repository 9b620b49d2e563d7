"""The two ends of a request: the client's connection, and a provider's stream."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from wsgiref.types import WSGIEnvironment

from gateway_project.server.http1.messages import PACE
from gateway_project.server.sockets import ReaderPace
from providers.formats import StreamReader

if TYPE_CHECKING:
    from providers.formats.sse import ChunkTemplate
    from providers.transport.calls import Call
    from providers.transport.provider_response import ProviderResponse

EVENT_STREAM = "text/event-stream"  # how the content type of events begins
EVENT_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")


@dataclass(slots=True)
class ClientConnection:
    """The request as the view passes it on: its body is not read yet."""

    environ: WSGIEnvironment  # WSGI's: headers such as HTTP_X_SVC_CACHE, and the body in wsgi.input
    client: Any = None  # the client's socket, to notice when it goes away
    address: str = ""

    @property
    def pace(self) -> ReaderPace | None:
        """What sends the answer and bounds slow readers; None behind TLS and in gevent, where nothing does."""
        return self.environ.get(PACE)

    def bind_pace(self, call: "Call | None") -> None:
        """Stop the time of this call's provider while the client is waited for; a wait ends with the call.

        None: from now on a wait concerns no call.
        """
        if (pace := self.pace) is not None:
            pace.call = call


@dataclass(slots=True)
class Stream:
    """A provider's stream that has begun; `pieces` yields what follows after `first_chunk`."""

    provider_response: "ProviderResponse"
    pieces: Any
    reader: StreamReader
    first_chunk: bytes
    content_type: str
    is_guarded: bool = False  # each read has to be parsed
    usage_bytes: int = 0  # read after the last client had gone, for the usage alone

    @property
    def template(self) -> "ChunkTemplate | None":
        """The template that the next read may match, as one whole HTTP chunk; None if it has to be parsed."""
        can_match = self.provider_response.at_chunk_boundary and not self.is_guarded
        return self.reader.template if can_match else None


def heartbeat_after(last: bytes, heartbeat: bytes) -> bytes:
    """The heartbeat for a client that got this last: inside an event it has no empty line, inside a line it is b""."""
    if not last or last.endswith(EVENT_ENDS):
        return heartbeat
    return b"" if is_in_line(last) else heartbeat[:-1]


def is_in_line(last: bytes) -> bool:
    """Whether what a client got last is the beginning of a line."""
    return bool(last) and not last.endswith((b"\n", b"\r"))
