"""In a crowd, logins beyond those that may wait are refused before they get a thread."""

import selectors
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_network

import pytest

from gateway_project.server.connections.addresses import Places
from gateway_project.server.connections.logins import TOO_MANY_LOGINS, is_whole_login
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
    ("data", "expected"),
    [
        (WHOLE, True),
        (WHOLE.replace(b"Content-Length", b"content-length"), True),
        (WHOLE.replace(b"/auth/login", b"/admin/login/?next=/admin/"), True),
        (WHOLE.replace(b"/auth/login", b"/me/login/"), True),
        (WHOLE[:-1], False),
        (LOGIN + b"\r\n", False),
        (LOGIN + b"Transfer-Encoding: chunked\r\n\r\n" + BODY, False),
        (LOGIN + b"Content-Length: 99999999999\r\n\r\n" + BODY, False),
        (WHOLE.replace(b"POST", b"GET"), False),
        (WHOLE.replace(b"/auth/login", b"/work"), False),
        (b"", False),
    ],
)
def test_a_login_is_one_once_its_body_is_here(data, expected):
    assert is_whole_login(data) is expected


def test_logins_through_a_proxy_are_not_refused_by_the_proxys_address():
    """All would share its places; the application knows the addresses that it reports."""
    worker = object.__new__(GatewayThreadWorker)
    worker.trusted_proxies = TrustedProxies([ip_network("10.0.0.1")])
    worker.busy, worker.parked, worker.poller = CROWD_FOR_NEW, {}, selectors.DefaultSelector()
    worker.logins, worker.login_hosts = Places(0, 0, TOO_MANY_LOGINS), {}
    ours, theirs = socket.socketpair()
    with ours, theirs, worker.poller:
        theirs.sendall(WHOLE)
        served, dropped = [], []
        worker._submit, worker._drop = served.append, dropped.append
        for host in ("10.0.0.1", "192.0.2.100"):
            connection = Connection(ours, (host, 5))
            worker.parked = {connection: 0.0}
            worker._check_head(connection)
    assert [conn.client[0] for conn in served] == ["10.0.0.1"]
    assert [conn.client[0] for conn in dropped] == ["192.0.2.100"]


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
        answers = [received(sock) for sock in socks]
        assert world.get("/healthz").status_code == 200
    refusals = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503")]
    assert len(refusals) >= MAX_LOGINS
    assert all(b"Retry-After: 1\r\n" in answer and b"Too many logins" in answer for answer in refusals)
    assert any(answer.startswith(b"HTTP/1.1 401") for answer in answers)
    for thread in crowd:
        thread.join()
