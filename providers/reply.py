"""A provider's answer read off its socket, piece by piece, as hostile data: bounded, and never trusted to end."""

import socket
import ssl
from collections.abc import Iterator

import httptools

HEAD_LIMIT = 64 * 1024
# Memory is taken before a read waits: little for a thousand waiting threads, more for an answer that comes thick.
FIRST_READ, LARGEST_READ = 4 * 1024, 256 * 1024
RESET = "it reset the connection"
FRAMING = {"content-length", "transfer-encoding"}


class BadReply(Exception):
    """The provider's bytes are not an HTTP/1.1 answer within our bounds; the text says why."""


class Truncated(BadReply):
    """The connection ended before the answer did."""


class NoReply(BadReply):
    """The connection ended before the first byte of an answer."""


class _Surplus(Exception):
    """The provider goes on after its answer."""


class Reply:
    """One HTTP answer: status and headers at once, the body when it is asked for.

    `settled` means the framing itself said that the body is whole (its length, or the last chunk);
    a body that only ended with the connection is not settled, and its content has to prove itself.
    """

    __slots__ = ("_body", "_ends_chunk", "_framed", "_head_done", "_heard", "_keeps", "_padding", "_parser",
                 "_read_size", "_sock", "_surplus", "_unread", "body_bytes", "headers", "limit", "on_bytes", "settled",
                 "status")  # fmt: skip

    def __init__(self, sock: socket.socket, *, limit: int, on_bytes=lambda: None) -> None:
        self._sock = sock
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._heard = self._head_done = self.settled = self._framed = self._surplus = self._keeps = False
        self._unread = b""  # has come already, and is not fed yet
        self._ends_chunk = False
        self._read_size = FIRST_READ
        self._padding = 0  # bytes of trailers and of framing since the last byte of the body
        self.limit = limit
        self.on_bytes = on_bytes
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body_bytes = 0

    # -- What the parser calls --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.settled:
            raise _Surplus  # the parser stops here: nothing more is read into the answer

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_done:  # a trailer: nobody looks at it
            return
        key = name.decode("latin-1").lower()
        self.headers[key] = value.decode("latin-1")
        if key in FRAMING:
            self._framed = True

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:  # an interim answer: the real one follows
            self.headers.clear()
        else:
            self._head_done = True

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)
        self.body_bytes += len(piece)

    def on_message_complete(self) -> None:
        self.settled = self._head_done
        self._keeps = self._parser.should_keep_alive()  # the parser knows it only now

    # -- What callers use -------------------------------------------------------------------------

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self.settled and self._framed and not self._surplus and self._keeps

    @property
    def is_between(self) -> bool:
        """Whether the body comes in chunks, and the next read begins one."""
        return self._ends_chunk and "transfer-encoding" in self.headers

    def passed(self, body_bytes: int, unread: bytes) -> None:
        """Whole chunks with so much of the body were read by somebody else, and then this, which is read on from."""
        self.body_bytes += body_bytes
        self._unread = unread

    def end(self) -> None:
        """Nothing more is read. Reply and parser hold each other: thousands would wait for the garbage collector."""
        self._parser = None

    def read_head(self) -> None:
        """Wait for status and headers. Raises NoReply where not a single byte came."""
        received = 0
        while not self._head_done:
            size = self._receive()
            if not size:
                if self._heard:
                    raise Truncated("it closed the connection in its headers")
                raise NoReply("it closed the connection without an answer")
            received += max(size, 0)
            if received > HEAD_LIMIT + self.body_bytes:
                raise BadReply(f"its headers are longer than {HEAD_LIMIT} bytes")

    def read(self) -> bytes:
        """The whole body. Raises Truncated where the framing promised more."""
        while not self.settled and self._receive():
            pass
        self._check_end()
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives; b"" each time the provider was silent for the socket's receive time-out."""
        while True:
            if self._body:
                piece = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body.clear()
                yield piece
            if self.settled:
                return
            size = self._receive()
            if size < 0:
                yield b""
            elif not size:
                break
        self._check_end()

    def _check_end(self) -> None:
        if not self.settled and self._framed:
            raise Truncated("it closed the connection before the end of its answer")

    def _receive(self) -> int:
        """Feed the parser once; the number of bytes, 0 at the end, -1 after a silence."""
        try:
            data = self._unread or self._sock.recv(self._read_size)
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):  # silent, not dead
            return -1
        except (ConnectionError, ssl.SSLError) as error:
            raise (Truncated if self._heard else NoReply)(RESET) from error
        self._unread = b""
        if not data:
            return 0
        self._heard = True
        if len(data) == self._read_size:
            self._read_size = min(self._read_size * 4, LARGEST_READ)
        self.on_bytes()
        pieces, body_bytes = len(self._body), self.body_bytes
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.settled:
                raise BadReply("it does not speak HTTP/1.1") from error
            self._surplus = True
        if len(self._body) == pieces + 1 and self.body_bytes <= self.limit:
            self._padding = 0
            piece = self._body[-1]
            # An end of a line in front of it could be that of a size, with the chunk's first bytes behind it.
            self._ends_chunk = len(data) < FIRST_READ and data.endswith(piece + b"\r\n") and not piece.endswith(b"\r\n")
        else:
            self._ends_chunk = False
            self._check_amount(len(data), pieces, body_bytes)
        return len(data)

    def _check_amount(self, size: int, pieces: int, body_bytes: int) -> None:
        """After a read of so many bytes that was not one piece; `pieces` and `body_bytes` are what there was before."""
        if self.body_bytes > self.limit:
            raise BadReply(f"its answer is longer than {self.limit} bytes")
        if len(self._body) > pieces + 1:  # tiny chunks would take many times their size
            self._body[pieces:] = [b"".join(self._body[pieces:])]
        if self._head_done:
            self._padding = 0 if self.body_bytes > body_bytes else self._padding + size
            if self._padding > HEAD_LIMIT:
                raise BadReply(f"it sent more than {HEAD_LIMIT} bytes that are no part of an answer")
