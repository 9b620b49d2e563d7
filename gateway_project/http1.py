"""gunicorn's request and response, where what they do surprises clients or costs more than it has to.

Like the worker they touch gunicorn's internals: the version is pinned, and each difference has a test.
"""

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

    It reads on only so far what of a body nobody wanted. A client that was told nothing would send its next request
    on that connection, and never get an answer.

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
        return super().should_close() or self.is_beyond or _leaves_much(self.body)


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


def _leaves_much(body: Body) -> bool:
    """Whether reading a body failed, or more of it is unread than may be read on; of chunks nobody knows how much."""
    if isinstance(body.reader, ChunkedReader):
        return body.failed or body.reader.parser is not None
    return body.failed or body.reader.length >= READ_ON_BYTES
