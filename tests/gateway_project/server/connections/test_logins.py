"""In a crowd, logins beyond those that may wait are refused before they get a thread."""

import selectors
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_network
from types import SimpleNamespace

import pytest

from gateway_project.server.connections.addresses import Places
from gateway_project.server.connections.login_places import LoginPlaces
from gateway_project.server.connections.logins import TOO_MANY_LOGINS, is_login, is_whole, may_be_login
from gateway_project.server.proxies import TrustedProxies
from gateway_project.server.worker import (
    CROWD_FOR_NEW,
    MAX_LOGINS,
    GatewayThreadWorker,
)
from tests.support.floods import PATIENT, Attackers, received

pytestmark = pytest.mark.embedded
BODY = b'{"data": {"attributes": {"grantType": "password", "userName": "nobody", "password": "wrong"}}}'
LOGIN = b"POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
WHOLE = LOGIN + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


@dataclass(eq=False)
class Connection:
    """What the worker knows of a new connection."""

    sock: socket.socket
    client: tuple[str, int]
    parser: None = None


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (WHOLE, True),
        (WHOLE.replace(b"Content-Length", b"content-length"), True),
        (WHOLE.replace(b"Length: ", b"Length: " + b"0" * 40), True),
        (WHOLE.replace(b"/auth/login", b"/admin/login/?next=/admin/"), True),
        (WHOLE.replace(b"/auth/login", b"/me/login/"), True),
        (WHOLE.replace(b"/auth/login", b"http://localhost/auth/login"), True),
        (WHOLE.replace(b"/auth/login", b"/auth/%6Cogin"), True),
        (b"\r\n" + WHOLE, True),
        (WHOLE[:-1], False),
        (LOGIN + b"\r\n", True),
        (b"POST /auth/login HTTP/1.1\r\n\r\n", True),
        (LOGIN + b"Transfer-Encoding: chunked\r\n\r\n5d\r\n" + BODY, False),
        (LOGIN + b"Transfer-Encoding: chunked\r\n\r\n5d\r\n" + BODY + b"\r\n0\r\n\r\n", True),
        (LOGIN + b"Content-Length: 99999999999\r\n\r\n" + BODY, False),
        (LOGIN + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + BODY, False),
    ],
)
def test_a_login_is_known_by_its_head_and_whole_once_its_body_is_here(data, whole):
    assert is_login(data)
    assert may_be_login(data)
    assert is_whole(data) is whole


@pytest.mark.parametrize(
    "data",
    [
        WHOLE.replace(b"POST", b"GET"),
        WHOLE.replace(b"/auth/login", b"/work"),
        WHOLE.replace(b"/auth/login", b"/me/login/code/"),
        WHOLE.replace(b"/auth/login", b"/work?/auth/login"),
        WHOLE.replace(b"/auth/login", b"/auth/logins"),
    ],
)
def test_other_requests_are_none(data):
    assert not is_login(data)
    assert not may_be_login(data)


def refresh(attributes: bytes = b"", path: bytes = b"/auth/login", framing: bytes = b"Content-Length: %d") -> bytes:
    body = b'{"data": {"attributes": {"grantType": "Bearer", "tokenType": "refreshToken"%b}}}' % attributes
    framing = framing % len(body) if b"%d" in framing else framing
    return LOGIN.replace(b"/auth/login", path) + framing + b"\r\n\r\n" + body


def test_a_refresh_is_no_login_once_its_body_is_here():
    assert not is_login(refresh())
    assert not is_login(refresh(b', "refreshToken": "a.b.c"') + WHOLE)  # and the next request
    assert not is_login(refresh(path=b"/auth/login/"))
    assert is_login(refresh()[:-1])


@pytest.mark.parametrize(
    "data",
    [
        refresh(b', "password": "x"'),
        refresh(b', "p\\u0061ssword": "x"'),
        refresh(path=b"/admin/login/"),
        refresh(framing=b"Transfer-Encoding: chunked"),
        refresh(framing=b"Content-Length: %d\r\nTransfer-Encoding: chunked"),
        WHOLE.replace(b"wrong", b"Bearer"),
    ],
)
def test_what_may_have_a_password_is_a_login(data):
    assert is_login(data)


@pytest.mark.parametrize("data", [b"", b"\r\n", b"POST /work", LOGIN, LOGIN + b"Content-Length: 0\r\n"])
def test_half_a_head_is_no_login_yet(data):
    assert not is_login(data)
    assert may_be_login(data)


class Waiting:
    """A worker in a crowd with one connection that waits, and what it did with it."""

    def __init__(self, places: Places, host: str) -> None:
        self.worker = object.__new__(GatewayThreadWorker)
        self.worker.trusted_proxies = TrustedProxies([ip_network("10.0.0.1")])
        self.worker.busy, self.worker.poller = CROWD_FOR_NEW, selectors.DefaultSelector()
        self.worker.cfg, self.worker.reading_heads = SimpleNamespace(threads=100), {}
        self.worker.tpool = SimpleNamespace(has_room=True)
        self.worker.logins = LoginPlaces(places)
        self.served, self.dropped = [], []
        self.worker._submit, self.worker._drop = self.served.append, self.dropped.append
        self.ours, self.theirs = socket.socketpair()
        self.connection = Connection(self.ours, (host, 5))
        self.worker.parked, self.worker.receiving = {self.connection: 0.0}, {self.connection}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for resource in (self.ours, self.theirs, self.worker.poller):
            resource.close()

    def sends(self, data: bytes) -> str:
        """What becomes of the connection when it has sent this as well."""
        self.theirs.sendall(data)
        self.worker._check_head(self.connection)
        return "served" if self.served else "dropped" if self.dropped else "waits"


@pytest.mark.parametrize(
    ("host", "forwarded", "outcome"),
    [
        ("192.0.2.100", b"", "dropped"),
        ("192.0.2.101", b"", "served"),
        ("192.0.2.101", b"X-Forwarded-For: 192.0.2.100\r\n", "served"),  # it is no proxy that is trusted
        ("10.0.0.1", b"X-Forwarded-For: 192.0.2.100\r\n", "dropped"),
        ("10.0.0.1", b"X-Forwarded-For: 192.0.2.100\r\nX-Forwarded-For: 192.0.2.101\r\n", "served"),
        ("", b"", "served"),  # of a Unix socket
    ],
)
def test_a_login_counts_for_the_address_that_a_trusted_proxy_reports(host, forwarded, outcome):
    places = Places(5, 1, TOO_MANY_LOGINS)
    places.take("192.0.2.100")
    with Waiting(places, host) as waiting:
        assert waiting.sends(WHOLE.replace(b"Connection", forwarded + b"Connection")) == outcome


def test_a_login_has_its_place_only_while_all_of_it_is_here():
    """Otherwise a few half ones, which cost nothing to send, would keep the places of all others."""
    places = Places(1, 1, TOO_MANY_LOGINS)
    with Waiting(places, "192.0.2.100") as waiting:
        assert waiting.sends(LOGIN + b"Content-Length: 5\r\n") == "waits"
        assert waiting.sends(b"\r\n{") == "waits"
        assert places.has_room("192.0.2.101")
        assert waiting.sends(b"    ") == "served"
        assert not places.has_room("192.0.2.101")
        for _ in range(2):  # when the answer begins, and when it is sent
            waiting.worker.logins.release(waiting.connection)
        assert places.has_room("192.0.2.101")


def test_a_login_that_waits_for_its_body_still_waits_when_the_crowd_is_gone():
    """In a thread its time would begin anew."""
    with Waiting(Places(1, 1, TOO_MANY_LOGINS), "192.0.2.100") as waiting:
        assert waiting.sends(LOGIN + b"Content-Length: 5\r\n\r\n") == "waits"
        waiting.worker.busy = 0
        assert waiting.sends(b"{") == "waits"
        assert waiting.sends(b"    ") == "served"


def test_without_a_place_a_login_is_refused_by_its_head():
    with Waiting(Places(0, 0, TOO_MANY_LOGINS), "192.0.2.100") as waiting:
        assert waiting.sends(LOGIN + b"Content-Length: 5\r\n") == "waits"
        assert waiting.sends(b"\r\n") == "dropped"
        assert b"Too many logins" in waiting.theirs.recv(4096)


def test_without_a_place_a_refresh_is_served():
    with Waiting(Places(0, 0, TOO_MANY_LOGINS), "192.0.2.100") as waiting:
        assert waiting.sends(refresh()) == "served"


def test_half_a_head_of_another_request_waits_in_a_thread():
    with Waiting(Places(1, 1, TOO_MANY_LOGINS), "192.0.2.100") as waiting:
        assert waiting.sends(b"POST /wo") == "waits"
        assert waiting.sends(b"rk HTTP/1.1\r\nX-Long: ") == "served"


def test_in_a_crowd_logins_beyond_those_that_may_wait_are_refused_at_once(own_gateway):
    world = own_gateway(GATEWAY_KEY_REQUESTS_PER_MINUTE="0", **PATIENT)
    world.allow()
    provider = world.provider()
    provider.default.delay = 4
    crowd = [threading.Thread(target=world.ask, args=(f"question {n}",)) for n in range(CROWD_FOR_NEW)]
    for thread in crowd:
        thread.start()
    world.until(lambda: len(provider.seen) == CROWD_FOR_NEW)
    with ExitStack() as resources:
        attackers = Attackers(world.gateway.port, resources)
        socks = [attackers.connect(f"127.0.1.{number}") for number in range(1, 4 * MAX_LOGINS)]
        for sock in socks:
            sock.sendall(WHOLE)
        refreshing = attackers.connect("127.0.1.1")
        refreshing.sendall(refresh(b', "refreshToken": "a.b.c"'))
        assert received(refreshing).startswith(b"HTTP/1.1 401")  # and not 503: it needs no hash
        answers = [received(sock) for sock in socks]
        assert world.get("/healthz").status_code == 200
    refusals = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503")]
    assert len(refusals) >= MAX_LOGINS
    assert all(b"Retry-After: 1\r\n" in answer and b"Too many logins" in answer for answer in refusals)
    assert any(answer.startswith(b"HTTP/1.1 401") for answer in answers)
    for thread in crowd:
        thread.join()
