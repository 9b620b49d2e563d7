"""Heads and bodies that the worker refuses."""

import json
import socket
from contextlib import ExitStack

import pytest

from tests.support.promises import promise
from tests.support.stalling_clients import answer, connect, head, work_head
from tests.support.world import response_on

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize(
    ("framing", "body", "kept"),
    [
        ("Content-Length: 100000", b"x" * 100_000, False),
        ("Transfer-Encoding: chunked", b"186a0\r\n" + b"x" * 100_000 + b"\r\n0\r\n\r\n", False),
        ("Content-Length: 100", b"x" * 100, True),
    ],
    ids=["long", "chunked", "short"],
)
def test_a_refusal_before_the_body_is_read_says_whether_the_connection_goes_on(small, framing, body, kept):
    ask = head("POST /work HTTP/1.1", "Host: localhost", "Authorization: Bearer nobody", framing) + body
    with ExitStack() as resources:
        sock = connect(small, resources)
        sock.sendall(ask)
        response = response_on(sock)
        assert (response.status, response.headers["Connection"]) == (401, "keep-alive" if kept else "close")
        response.read()
        if kept:
            sock.sendall(ask)
            assert response_on(sock).status == 401
        else:
            assert answer(sock) == b""


@promise("V-T2: a header with underscores stands for no other", target="refused or ignored", suite="attack")
def test_headers_with_underscores_cannot_stand_in_for_ours(world, small):
    world.allow()
    provider = world.provider()
    body = json.dumps({"model": world.model, "messages": []}).encode()
    with ExitStack() as resources:
        sock = connect(small, resources)
        lines = ("Connection: close", f"Content-Length: {len(body)}", "X_Svc_Request_ID: forged", "X_Svc_Tags: a=b")
        sock.sendall(work_head(world, *lines) + body)
        text = answer(sock)
    assert b"forged" not in text
    # Refused, or served as if the header had not been there; never taken for the real one.
    assert text.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200"))
    assert all("forged" not in str(observations.raw_headers) for observations in provider.seen)


@promise("V-T2: a header with underscores stands for no other", target="refused or ignored", suite="attack")
def test_a_credential_in_an_underscore_header_is_none(world, small):
    world.allow()
    with ExitStack() as resources:
        sock = connect(small, resources)
        sock.sendall(head("POST /work HTTP/1.1", "Host: x", "HTTP_AUTHORIZATION: Bearer y", "Connection: close"))
        assert answer(sock)[9:12] in (b"400", b"401")


@pytest.mark.parametrize(
    "framing",
    [
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Content-Length: 4", "Content-Length: 5"),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity, chunked",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: , chunked",),
        ("Content-Length: +4",),
    ],
)
def test_a_body_of_two_framings_or_in_a_coding_is_refused(world, small, framing):
    with ExitStack() as resources:
        sock = connect(small, resources)
        sock.sendall(work_head(world, *framing) + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        text = answer(sock)
    assert text.startswith(b"HTTP/1.1 400")
    assert b"malformed" in text  # and not read, and then found to be no JSON
    assert text.count(b"HTTP/1.1") == 1


def test_nonsense_is_a_400_and_at_most_one_line(small):
    before = len(small.log().splitlines())
    with socket.create_connection(("127.0.0.1", small.port), timeout=5) as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 400")
    assert len(small.log().splitlines()) <= before + 1
