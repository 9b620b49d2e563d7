"""gunicorn's request and response, where what they do surprises clients or costs more than it has to.

Like the worker they touch gunicorn's internals: the version is pinned, and each difference has a test.
"""

import fcntl
import socket
import sys
import termios

from gunicorn.http import wsgi
from gunicorn.http.body import Body, ChunkedReader
from gunicorn.http.errors import UnsupportedTransferCoding
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

from gateway_project import load

READ_ON_BYTES = 64 * 1024  # gunicorn's own bound
LARGEST_WITH_HEAD = 64 * 1024  # to put the head in front is to copy it


def install() -> None:
    """From now on every worker of this process reads and answers with these."""
    RequestParser.mesg_class = CandidRequest
    wsgi.Response = WholeResponse


class CandidRequest(Request):
    """A request whose answer says that the connection closes where gunicorn would close it without a word.

    Of a body that nobody wanted it reads on only what has come by then. A client that was told nothing would send its
    next request on that connection, and never get an answer.

    Its body comes as it is, in chunks or not: gunicorn takes codings that nobody here undoes (RFC 9112, section 6.1).
    """

    def __init__(self, *arguments) -> None:
        self.is_beyond = load.is_full()  # asked of the request before too, by the thread that serves the next one
        super().__init__(*arguments)

    def set_body_reader(self) -> None:
        for name, value in self.headers:
            if name == "TRANSFER-ENCODING" and value.strip(" \t").lower() != "chunked":
                raise UnsupportedTransferCoding(value)
        super().set_body_reader()

    def should_close(self) -> bool:
        if not has_come(self.body):
            self.force_close()  # it may come later: the answer has said what it said
        return super().should_close() or self.is_beyond


class WholeResponse(wsgi.Response):
    """Sends its head together with the first of its body: apart, each is a system call, and wakes the client."""

    def send_headers(self) -> None:
        """Not yet: gunicorn calls this before each piece of the body."""

    def sendfile(self, respiter) -> bool:
        self._send(b"")
        return super().sendfile(respiter)

    def close(self) -> None:
        self._send(b"0\r\n\r\n" if self.chunked else b"")

    def _emit_body(self, data: bytes) -> None:
        self._send(b"%X\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    def _send(self, data: bytes) -> None:
        if not self.headers_sent:
            head = self._head()
            self.headers_sent = True  # also where the client takes a part alone: nothing else can be said then
            if len(data) > LARGEST_WITH_HEAD:
                self.sock.sendall(head)
            else:
                data = head + data
        if data:
            self.sock.sendall(data)

    def _head(self) -> bytes:
        lines = [*self.default_headers(), *(f"{name}: {value}\r\n" for name, value in self.headers), "\r\n"]
        return "".join(lines).encode("latin-1")


def has_come(body: Body) -> bool:
    """Whether what nobody has read of a body is there; of chunks, and of very long ones, nobody knows.

    Else the next request is not found behind it at once: gunicorn would wait for the rest in its thread, for as long as
    a byte comes now and then.
    """
    if body.failed or isinstance(body.reader, ChunkedReader):
        return not body.failed and body.reader.parser is None
    if not (length := body.reader.length):
        return True
    unreader = body.reader.unreader
    return length < READ_ON_BYTES and length <= len(unreader.buf.getbuffer()) + _waiting(unreader.sock)


def _waiting(sock: socket.socket) -> int:
    """How many bytes the kernel holds for whoever reads."""
    return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)
