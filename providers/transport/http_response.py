"""A provider's HTTP/1.1 response, read from its socket piece by piece, as hostile data: every size is bounded."""

import socket
import ssl
from collections.abc import Callable, Iterator

import httptools

MAX_HEAD_BYTES = 64 * 1024
# A read allocates its buffer before it waits: small for a thousand waiting threads, larger once data arrives fast.
FIRST_READ, MAX_READ = 4 * 1024, 256 * 1024
RESET = "it reset the connection"
FRAMING = frozenset({"content-length", "transfer-encoding"})


class InvalidResponse(Exception):
    """The provider's bytes are not an HTTP/1.1 response within our bounds; the message says why."""


class Truncated(InvalidResponse):
    """The connection ended before the response did."""


class TooLong(InvalidResponse):
    """The body is longer than its bound."""


class NoResponse(InvalidResponse):
    """The connection ended before the first byte of a response."""


class _ExtraResponse(Exception):
    """The provider sent data after its response."""


class HTTPResponse:
    """One HTTP response: read_head() reads status and headers, read() or pieces() the body.

    `is_complete` means that HTTP's framing marked the end of the body (Content-Length, or the last chunk). A body that
    ended with the connection is not complete in this sense: whether it is whole has to show in its content.
    """

    __slots__ = (
        "_body",
        "_framed",
        "_head_done",
        "_keep_alive",
        "_padding",
        "_parser",
        "_read_size",
        "_received_any",
        "_sock",
        "_unread",
        "at_chunk_boundary",
        "body_bytes",
        "headers",
        "is_complete",
        "limit",
        "on_bytes",
        "status",
    )

    def __init__(self, sock: socket.socket, *, limit: int, on_bytes: Callable[[], None] = lambda: None) -> None:
        self._sock = sock
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._received_any = self._head_done = self.is_complete = False
        self._framed = self._keep_alive = False
        self._unread = b""  # received, not yet parsed
        self.at_chunk_boundary = False  # whether the body is chunked and the next read begins a chunk
        self._read_size = FIRST_READ
        self._padding = 0  # bytes of framing and trailers since the last byte of the body
        self.limit = limit
        self.on_bytes = on_bytes
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body_bytes = 0

    # -- Called by the parser ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise _ExtraResponse  # stops the parser: nothing more is added to the response

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # trailers are ignored
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:  # an interim response: the real one follows
            self.headers.clear()
        else:
            self._head_done = True
            self._framed = not FRAMING.isdisjoint(self.headers)

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)
        self.body_bytes += len(piece)

    def on_message_complete(self) -> None:
        self.is_complete = self._head_done
        self._keep_alive = self._parser.should_keep_alive()  # the parser knows it only now

    # -- Called by users --------------------------------------------------------------------------

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self.is_complete and self._framed and self._keep_alive

    def record_forwarded(self, body_bytes: int, unread: bytes) -> None:
        """Account for whole chunks that the relay read from the socket, and for the `unread` bytes after them."""
        self.body_bytes += body_bytes
        self._unread = unread

    def end(self) -> None:
        """Break the reference cycle with the parser, which would leave thousands to the garbage collector."""
        del self._parser

    def read_head(self) -> None:
        """Wait for status and headers. Raises NoResponse if not a single byte arrived."""
        head_bytes = 0
        while not self._head_done:
            size = self._receive()
            if not size:
                if self._received_any:
                    raise Truncated("it closed the connection while sending its headers")
                raise NoResponse("it closed the connection without an answer")
            head_bytes += max(size, 0)
            if head_bytes > MAX_HEAD_BYTES + self.body_bytes:
                raise InvalidResponse(f"its headers are longer than {MAX_HEAD_BYTES} bytes")

    def read(self) -> bytes:
        """The whole body. Raises Truncated if the framing announced more."""
        while not self.is_complete and self._receive():
            pass
        self._check_end()
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives; b"" each time the provider is silent for the socket's receive time-out."""
        while True:
            if self._body:
                piece = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body.clear()
                yield piece
            if self.is_complete:
                return
            size = self._receive()
            if size < 0:
                yield b""
            elif not size:
                break
        self._check_end()

    def _check_end(self) -> None:
        if not self.is_complete and self._framed:
            raise Truncated("it closed the connection before the end of its answer")

    def _receive(self) -> int:
        """Receive once and parse; the number of bytes, 0 at the end of the connection, -1 after a silence."""
        try:
            data = self._unread or self._sock.recv(self._read_size)
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):  # silent, not dead
            return -1
        except (ConnectionError, ssl.SSLError) as error:
            raise (Truncated if self._received_any else NoResponse)(RESET) from error
        self._unread = b""
        if not data:
            return 0
        self._received_any, size = True, len(data)
        if size == self._read_size:
            self._read_size = min(self._read_size * 4, MAX_READ)
        self.on_bytes()
        pieces, body_bytes = len(self._body), self.body_bytes
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.is_complete:
                raise InvalidResponse("it does not speak HTTP/1.1") from error
            self._keep_alive = False  # there is data behind the response
        if len(self._body) == pieces + 1 and self.body_bytes <= self.limit:
            self._padding = 0
            self.at_chunk_boundary = "transfer-encoding" in self.headers and _ends_chunk(data, self._body[-1])
        else:
            self.at_chunk_boundary = False
            self._check_amount(size, pieces, body_bytes)
        return size

    def _check_amount(self, size: int, pieces: int, body_bytes: int) -> None:
        """Check bounds after a read of `size` bytes that was not one piece; the others are the values before it."""
        if self.body_bytes > self.limit:
            raise TooLong(f"its answer is longer than {self.limit} bytes")
        if len(self._body) > pieces + 1:  # a list of tiny chunks would take many times their size
            self._body[pieces:] = [b"".join(self._body[pieces:])]
        if self._head_done:
            self._padding = 0 if self.body_bytes > body_bytes else self._padding + size
            if self._padding > MAX_HEAD_BYTES:
                raise InvalidResponse(f"it sent more than {MAX_HEAD_BYTES} bytes that belong to no answer")


def _ends_chunk(data: bytes, piece: bytes) -> bool:
    """Whether a read that holds this piece of a body ends with its chunk.

    A line end before the piece's own could be that of a size line, with the chunk's first bytes after it.
    """
    return len(data) < FIRST_READ and data.endswith(piece + b"\r\n") and not piece.endswith(b"\r\n")
