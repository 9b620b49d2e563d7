"""Requests that two parsers read differently: each is refused once, and what is hidden behind it is never served."""

import json
import socket
from collections.abc import Callable

import pytest

from tests.support.promises import promise
from tests.support.world import World

pytestmark = pytest.mark.embedded

FRAMINGS = {
    "length and chunked": ("Content-Length: 4", "Transfer-Encoding: chunked"),
    "chunked and length": ("Transfer-Encoding: chunked", "Content-Length: 4"),
    "two lengths": ("Content-Length: 4", "Content-Length: 0"),
    "two equal lengths": ("Content-Length: 4", "Content-Length: 4"),
    "a list of lengths": ("Content-Length: 4, 4",),
    "a signed length": ("Content-Length: +4",),
    "a negative length": ("Content-Length: -4",),
    "a hexadecimal length": ("Content-Length: 0x4",),
    "a length with an underscore": ("Content-Length: 4_0",),
    "a length with a fraction": ("Content-Length: 4.0",),
    "a length in other digits": ("Content-Length: \u00b2",),
    "an empty length": ("Content-Length:",),
    "a space before the colon of a length": ("Content-Length : 4",),
    "a space before the colon of a coding": ("Transfer-Encoding : chunked",),
    "a tab before the colon": ("Transfer-Encoding\t: chunked",),
    "a coding that is none": ("Transfer-Encoding: xchunked",),
    "a coding and chunked": ("Transfer-Encoding: gzip, chunked",),
    "chunked and a coding": ("Transfer-Encoding: chunked, identity",),
    "chunked twice": ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "chunked twice in one line": ("Transfer-Encoding: chunked, chunked",),
    "a vertical tab": ("Transfer-Encoding: \x0bchunked",),
    "a quoted coding": ('Transfer-Encoding: "chunked"',),
    "a folded coding": ("Transfer-Encoding:\r\n chunked",),
    "a folded length": ("Content-Length: 4\r\n 0",),
    "a folded header": ("X-A: a\r\n\tTransfer-Encoding: chunked",),
    "a first line that is folded": (" Transfer-Encoding: chunked",),
    "a bare line feed": ("X-A: a\nTransfer-Encoding: chunked",),
    "a bare carriage return": ("X-A: a\rTransfer-Encoding: chunked",),
    "a NUL": ("X-A: a\0", "Content-Length: 4"),
    "a NUL in a name": ("Content-Length\0: 4",),
    "no name": (": 4", "Content-Length: 4"),
    "no colon": ("Content-Length 4",),
    "a name with a space": ("Content Length: 4",),
    "an underscore for a length": ("Content_Length: 4",),
    "an underscore for a coding": ("Transfer_Encoding: chunked",),
}
CHUNKS = {
    "a size with a prefix": b"0x%x\r\n%b\r\n0\r\n\r\n",
    "a signed size": b"+%x\r\n%b\r\n0\r\n\r\n",
    "a negative size": b"-%x\r\n%b\r\n0\r\n\r\n",
    "a size with an underscore": b"0_%x\r\n%b\r\n0\r\n\r\n",
    "a size with a space before it": b" %x\r\n%b\r\n0\r\n\r\n",
    "an empty size": b"\r\n0%x\r\n%b\r\n0\r\n\r\n",
    "a size of 20 digits": b"ffffffffffff%08x\r\n%b\r\n0\r\n\r\n",
    "a bare line feed behind the size": b"%x\n%b\r\n0\r\n\r\n",
    "a bare carriage return behind the size": b"%x\r%b\r\n0\r\n\r\n",
    "a bare line feed in an extension": b"%x;a\nb\r\n%b\r\n0\r\n\r\n",
    "a bare carriage return in an extension": b"%x;a\rb\r\n%b\r\n0\r\n\r\n",
    "a bare line feed behind the data": b"%x\r\n%b\n0\r\n\r\n",
    "nothing behind the data": b"%x\r\n%b0\r\n\r\n",
    "two more bytes behind the data": b"%x\r\n%bxx\r\n0\r\n\r\n",
    "bare line feeds at the end": b"%x\r\n%b\r\n0\n\n",
    "a trailer with a bare line feed": b"%x\r\n%b\r\n0\r\nX-A: a\n\r\n",
}
FIRST_LINES = {
    "two spaces": "POST  /work HTTP/1.1",
    "a tab": "POST\t/work HTTP/1.1",
    "no version": "POST /work",
    "a later version": "POST /work HTTP/2.0",
    "a version in another case": "POST /work http/1.1",
    "a method in lower case": "post /work HTTP/1.1",
    "a space in the path": "POST /work /healthz HTTP/1.1",
    "a bare line feed": "POST /work HTTP/1.1\nX-A: a",
}


@pytest.fixture
def hidden(world: World) -> Callable[[bytes], tuple[bytes, bool]]:
    """Sends bytes and a whole request behind them; what came back, and whether that request reached the provider."""
    world.allow()
    provider = world.provider()
    assert world.ask("a first question").status_code == 200

    def send(ambiguous: bytes) -> tuple[bytes, bool]:
        prompt = world.name("hidden")
        seen = len(provider.seen)
        with socket.create_connection(("127.0.0.1", world.gateway.port), timeout=10) as sock:
            sock.sendall(ambiguous + work_request(world, prompt, "Connection: close"))
            said = b"".join(iter(lambda: received(sock), b""))
        return said, any(prompt.encode() in request.body for request in provider.seen[seen:])

    return send


def received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except ConnectionResetError:  # it closed before it had read what we sent behind its back
        return b""


def head(world: World, *lines: str, first: str = "POST /work HTTP/1.1") -> bytes:
    known = (first, "Host: gateway", f"Authorization: Bearer {world.key}", "Content-Type: application/json")
    return "\r\n".join([*known, *lines, "", ""]).encode("latin-1")


def document(world: World, prompt: str) -> bytes:
    return json.dumps({"model": world.model, "messages": [{"role": "user", "content": prompt}]}).encode()


def work_request(world: World, prompt: str, *lines: str) -> bytes:
    body = document(world, prompt)
    return head(world, f"Content-Length: {len(body)}", *lines) + body


def assert_refused(said: bytes, is_served: bool) -> None:
    assert not is_served, "the hidden request reached the provider"
    assert said.count(b"HTTP/1.1 ") <= 1, said.decode("latin-1")
    assert not said or said[9:12] in (b"400", b"405", b"501", b"505"), said.decode("latin-1")


@promise("An ambiguous length of a request is refused, and nothing behind it is served", target="1 answer, 400")
@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
def test_an_ambiguous_length_is_refused(world, hidden, framing):
    assert_refused(*hidden(head(world, *framing) + b"0\r\n\r\n"))


@promise("An ambiguous chunk of a request is refused, and nothing behind it is served", target="1 answer, 400")
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_an_ambiguous_chunk_is_refused(world, hidden, chunks):
    body = document(world, "in chunks")
    assert_refused(*hidden(head(world, "Transfer-Encoding: chunked") + chunks % (len(body), body)))


@promise("An ambiguous first line of a request is refused, and nothing behind it is served", target="1 answer, 400")
@pytest.mark.parametrize("first", FIRST_LINES.values(), ids=FIRST_LINES)
def test_an_ambiguous_first_line_is_refused(world, hidden, first):
    assert_refused(*hidden(head(world, "Content-Length: 5", first=first) + b"0\r\n\r\n"))


@promise("Chunk extensions change nothing in the request", target="2 requests, 2 answers")
@pytest.mark.parametrize("extension", ["", ";a", ";a=b", ';a="b; c"', " ;a"])
def test_legal_chunks_are_read_to_their_end(world, hidden, extension):
    body = document(world, world.name("in chunks"))
    size = b"%x%b\r\n" % (len(body), extension.encode())
    said, is_served = hidden(head(world, "Transfer-Encoding: chunked") + size + body + b"\r\n0\r\n\r\n")
    assert (said.count(b"HTTP/1.1 200"), is_served) == (2, True)


@promise("Trailers of a request are no headers", target="1 answer, 400; or 2 requests, 2 answers")
@pytest.mark.parametrize("trailer", ["Content-Length: 5", "Authorization: Bearer x", "Transfer-Encoding: gzip", "X: y"])
def test_trailers_are_no_headers(world, hidden, trailer):
    body = document(world, world.name("in chunks"))
    chunks = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, trailer.encode())
    said, is_served = hidden(head(world, "Transfer-Encoding: chunked") + chunks)
    if b"HTTP/1.1 400" in said:
        assert_refused(said, is_served)
    else:
        assert (said.count(b"HTTP/1.1 200"), is_served) == (2, True)


def test_a_request_with_one_length_is_no_attack(world, hidden):
    """What the other tests send behind an attack is served where there is none."""
    said, is_served = hidden(work_request(world, "in the open"))
    assert (said.count(b"HTTP/1.1 200"), is_served) == (2, True)
