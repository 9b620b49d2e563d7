"""Bodies that are no work may come from anybody: all of them together keep nobody's work waiting."""

import itertools
import json
import socket
import time
from contextlib import ExitStack, nullcontext, suppress
from io import BytesIO

import pytest
import requests
from django.conf import settings

from gateway_project.errors import PayloadTooLarge, ServiceUnavailable, ValidationError
from gateway_project.server.bodies import MAX_LIST_BYTES, MAX_MANAGEMENT_BYTES, read_body
from gateway_project.server.management_bodies import MAX_TOTAL_BYTES, ManagementBodies
from tests.support.thoroughness import first_of
from tests.support.world import response_on

pytestmark = pytest.mark.embedded

THREADS = 8
ADDRESSES = itertools.count()
LIMIT = 1  # seconds that a client may be silent
# A body may take 2 s more. Of one that is not read gunicorn takes what comes for 5 s, and the goodbye takes 2.
FREED_WITHIN = max(LIMIT + 2, 5) + 2 + 3
FORM = "Cookie: csrftoken=abcdefghijklmnopqrstuvwxyzabcdef\r\nContent-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"


@pytest.fixture(scope="module")
def strangers():
    with ExitStack() as resources:
        yield resources


@pytest.fixture
def world(own_gateway):
    row = own_gateway(GATEWAY_THREADS=str(THREADS), GATEWAY_CLIENT_TIMEOUT=str(LIMIT))
    row.allow()
    row.provider()
    return row


@pytest.mark.parametrize(
    ("path", "headers", "drop"),
    first_of(
        ("/auth/login", f"{JSON}\r\nContent-Length: 1000", b"{"),
        ("/auth/login", f"{JSON}\r\nTransfer-Encoding: chunked", b"1\r\n{\r\n"),
        ("/admin/login/", f"{FORM}\r\nContent-Length: 1000", b"a"),
    ),
)
def test_bodies_that_drip_end_with_their_time_and_work_goes_on_meanwhile(world, strangers, path, headers, drop):
    clients = [socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20) for _ in range(THREADS + 4)]
    for client in clients:
        strangers.enter_context(client)
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n\r\n".encode() + drop)
    time.sleep(0.3)  # all threads are taken until those are refused that are too many
    length = 0 if "chunked" in headers else 1000
    until = time.monotonic() + (FREED_WITHIN if length else FREED_WITHIN + MAX_MANAGEMENT_BYTES / 65536)
    statuses = set()
    while clients and time.monotonic() < until:
        statuses.add(world.ask(f"{path} {time.monotonic()}").status_code)
        for client in clients:
            with suppress(OSError):
                client.sendall(drop)
        clients = [client for client in clients if not closed(client)]
        time.sleep(0.2)
    assert clients == []
    assert statuses == {200}


def closed(client: socket.socket) -> bool:
    """Whether the server has said all it has to say."""
    client.settimeout(0.01)
    try:
        return not client.recv(65536)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_for_what_nobody_reads_nobody_waits(world, strangers):
    """A thread would take it in for as long as it drips."""
    clients = [socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20) for _ in range(4 * THREADS)]
    for client in clients:
        strangers.enter_context(client)
        client.sendall(b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
    time.sleep(0.3)
    assert [world.ask(str(number)).status_code for number in range(3)] == [200] * 3
    for client in clients:
        response = response_on(client)
        assert response.status in (401, 503)  # all threads may be taken for a moment
        assert response.headers["Connection"] == "close"


def test_what_a_form_uploads_is_bounded(world):
    files = {"file": ("x", b"x" * (MAX_MANAGEMENT_BYTES + 1))}
    cookies = {"csrftoken": "abcdefghijklmnopqrstuvwxyzabcdef"}
    response = requests.post(f"{world.gateway.url}/admin/login/", files=files, cookies=cookies, timeout=20)
    assert (response.status_code, response.json()["exception"]) == (413, "PayloadTooLarge")
    assert response.headers["X-Svc-Request-ID"]


def test_only_forms_of_guardrails_may_be_longer():
    for path, size, is_accepted in (
        ("/admin/rules/guardrail/add/", MAX_LIST_BYTES, True),
        ("/admin/rules/guardrail/add/", MAX_LIST_BYTES + 1, False),
        ("/admin/rules/rule/add/", MAX_LIST_BYTES, False),
        ("/admin/login/", MAX_MANAGEMENT_BYTES + 1, False),
    ):
        with (
            nullcontext() if is_accepted else pytest.raises(PayloadTooLarge),
            bounds(1).bound_body(body_of(size, path)),
        ):
            pass
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == MAX_LIST_BYTES


def test_a_long_list_of_a_stranger_is_not_read(world, strangers):
    client = strangers.enter_context(socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20))
    head = f"POST /guardrails/ HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: {MAX_LIST_BYTES}\r\n\r\n{{"
    client.sendall(head.encode())
    start = time.monotonic()
    assert response_on(client).status == 401
    assert time.monotonic() - start < LIMIT


def test_who_has_sent_everything_is_served_whoever_has_not(world, strangers):
    """Those of whom nobody has to wait for anything: the console's pages, whole logins."""
    for _ in range(THREADS // 2):
        client = strangers.enter_context(socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20))
        client.sendall(b"POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 1048576\r\n\r\n{")  # fmt: skip
    time.sleep(0.3)
    whole = {"data": {"attributes": {"grantType": "password", "userName": "nobody", "password": "no password"}}}
    assert requests.get(f"{world.gateway.url}/admin/login/", timeout=20).status_code == 200
    body = json.dumps(whole).encode()
    head = f"POST /auth/login HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
    client = strangers.enter_context(socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20))
    client.sendall(head.encode() + body)
    response = response_on(client)
    assert response.status == 401, response.read()


def bounds(readers: int, *, come: bool = False) -> ManagementBodies:
    return ManagementBodies(readers, None, lambda body: come)


def test_what_is_announced_takes_no_room_before_it_comes():
    bodies = bounds(1)
    values = {"PATH_INFO": "/users/", "CONTENT_LENGTH": str(MAX_MANAGEMENT_BYTES), "wsgi.input": BytesIO(b"x")}
    with bodies.bound_body(values) as _, pytest.raises(ValidationError, match="shorter"):
        read_body(values, MAX_MANAGEMENT_BYTES)
    chunks = {"PATH_INFO": "/users/", "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": BytesIO(b"x")}
    for owner in range(4):
        bodies.memory.reserve(MAX_TOTAL_BYTES // 4, owner)
    with bodies.bound_body(chunks):
        assert read_body(chunks, MAX_MANAGEMENT_BYTES) == b"x"


def body_of(size: int, path: str = "/users/") -> dict:
    """The environment of a request from an address of its own."""
    address = f"10.0.0.{next(ADDRESSES)}"
    body = BytesIO(b"x" * size)
    return {"PATH_INFO": path, "CONTENT_LENGTH": str(size), "wsgi.input": body, "REMOTE_ADDR": address}


def test_all_of_them_have_so_much_room_together_and_give_it_back():
    bodies, size = bounds(8), MAX_MANAGEMENT_BYTES
    with ExitStack() as stack:
        for _ in range(MAX_TOTAL_BYTES // size):
            stack.enter_context(bodies.bound_body(environ := body_of(size)))
            assert len(read_body(environ, size)) == size
        with bodies.bound_body(environ := body_of(size)), pytest.raises(ServiceUnavailable, match="overloaded"):
            read_body(environ, size)
        with pytest.raises(ServiceUnavailable), bodies.bound_body(body_of(size, "/admin/login/")):
            pass
        with bodies.bound_body(environ := body_of(100)):
            assert len(read_body(environ, size)) == 100
    with bodies.bound_body(environ := body_of(size)):
        assert len(read_body(environ, size)) == size


def test_so_many_are_waited_for_at_one_moment():
    bodies = bounds(1)
    with bodies.bound_body(environ := body_of(1)):
        bodies.readers.acquire()
        with pytest.raises(ServiceUnavailable, match="too many requests"):
            read_body(environ, 1)
        bodies.readers.release()
        assert read_body(environ, 1) == b"x"
    come = bounds(1, come=True)
    with come.bound_body(environ := body_of(1)):
        come.readers.acquire()
        assert read_body(environ, 1) == b"x"


def test_a_form_is_there_when_django_reads_it():
    with bounds(1).bound_body(environ := body_of(5, "/admin/login/")):
        assert isinstance(environ["wsgi.input"], BytesIO)
        assert environ["wsgi.input"].readline() == b"xxxxx"
