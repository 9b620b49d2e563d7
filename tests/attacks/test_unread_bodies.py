"""Bodies that are announced and never sent: whoever is refused for the head alone reads why at once."""

import socket

import pytest

from gateway_project.work.doors import ENDPOINTS
from tests.support.floods import received
from tests.support.login_flood import status_of
from tests.support.management import new_admin, token_of
from tests.support.promises import promise
from tests.support.world import World

pytestmark = pytest.mark.either_store

WAIT_SECONDS, SOON_SECONDS = "120", 15  # whoever waited for the body would not answer in time
JSON = "Content-Type: application/json"
LONG, CHUNKED = "Content-Length: 100000", "Transfer-Encoding: chunked"
MEDIA_TYPES = ("multipart/form-data; boundary=" + "-" * 5000, "text/plain", "application/x-www-form-urlencoded")


@pytest.fixture
def world(own_gateway) -> World:
    world = own_gateway(GATEWAY_CLIENT_TIMEOUT=WAIT_SECONDS)
    world.allow()
    world.provider()
    assert world.ask("a first question").status_code == 200
    return world


def status_of_head(world: World, *lines: str, path: str = "/work", key: str = "") -> int:
    """The status of a POST request of which only the head is sent; TimeoutError if the gateway waits for more."""
    credential = [f"Authorization: Bearer {key}"] if key else []
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *credential, *lines, "", ""])
    with socket.create_connection(("127.0.0.1", world.gateway.port), timeout=SOON_SECONDS) as sock:
        sock.sendall(head.encode())
        return status_of(received(sock))


@promise("V-L23: a body of another media type is refused before it is read", target="415, or 401 without a credential")
def test_a_body_of_another_media_type_need_not_arrive(world):
    heads = [(path, f"Content-Type: {name}", framing)
             for path in ENDPOINTS for name in MEDIA_TYPES for framing in (LONG, CHUNKED)]  # fmt: skip
    for path, *lines in heads:
        assert status_of_head(world, *lines, path=path, key=world.key) == 415, (path, lines)
        assert status_of_head(world, *lines, path=path) == 401, (path, lines)
    assert status_of_head(world, JSON, LONG, "Content-Encoding: gzip", key=world.key) == 415


@promise("A body of a wrong credential is refused before it is read", target="401")
@pytest.mark.parametrize("framing", [LONG, CHUNKED], ids=["announced", "chunked"])
def test_a_body_of_a_wrong_credential_need_not_arrive(world, framing):
    for key in ("", "x", f"{world.key}x"):
        assert status_of_head(world, JSON, framing, key=key) == 401


@promise("V-N6: a body over the limit is refused before it is read", target="413")
def test_a_body_over_the_limit_need_not_arrive(world):
    admin = token_of(new_admin(username=world.name("admin")))
    for path in ENDPOINTS:
        assert status_of_head(world, JSON, "Content-Length: 33554433", path=path, key=world.key) == 413, path
    for path in ("/roles/", "/auth/login"):
        assert status_of_head(world, JSON, "Content-Length: 1048577", path=path, key=admin) == 413, path


@promise("V-N6: a body over the limit is refused before it is read", target="413")
def test_a_body_in_chunks_ends_at_the_limit(own_gateway):
    """Its size is not announced, and its end never comes."""
    world = own_gateway(GATEWAY_CLIENT_TIMEOUT=WAIT_SECONDS, GATEWAY_MAX_BODY_BYTES="200000")
    world.allow()
    chunk = b"%x\r\n%b\r\n" % (50_000, b" " * 50_000)
    with world.connect(f"{JSON}\r\n{CHUNKED}", chunk * 4) as sock:
        sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            sock.recv(1)  # it is not too long yet
        sock.settimeout(SOON_SECONDS)
        sock.sendall(chunk)
        assert status_of(received(sock)) == 413
