"""Clients that send half a head or half a body, from one address: work and health go on meanwhile."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from socket import socket

import pytest

from tests.support.floods import PATIENT, Attackers, Measurement, measure, received
from tests.support.login_flood import status_of
from tests.support.pace import bound, patience
from tests.support.promises import promise
from tests.support.thoroughness import first_of
from tests.support.world import World

pytestmark = pytest.mark.embedded

HEALTH_SECONDS = 0.25
SHARE = 0.8
SHORT = b"Content-Length: 1000"
LONG = b"Content-Length: 900000"
CHUNKED = b"Transfer-Encoding: chunked"
PIECES = {SHORT: b"{", LONG: b"{", CHUNKED: b"1\r\n{\r\n"}
HALF_HEAD = b"POST /work HTTP/1.1\r\nHost: loc"
DRIP_SECONDS = 0.5


def login_body(framing: bytes) -> bytes:
    """The head of a login and the first byte of its body."""
    head = b"POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head + framing + b"\r\n\r\n" + PIECES[framing]


def work_body(world: World, framing: bytes) -> bytes:
    """The same of a work request with a good key."""
    head = b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head + b"Authorization: Bearer %b\r\n%b\r\n\r\n%b" % (world.key.encode(), framing, PIECES[framing])


@contextmanager
def dripping(socks: list[socket], drop: bytes) -> Iterator[None]:
    """Inside this block each of these sends a little more now and then."""
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(DRIP_SECONDS):
            for sock in socks:
                with suppress(OSError):
                    sock.sendall(drop)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def under_attack(world: World, bodies: int, heads: int, body: bytes, drop: bytes) -> Measurement:
    """What honest clients get while these connections are open."""
    with ExitStack() as resources:
        attackers = Attackers(world.gateway.port, resources)
        socks = attackers.send(bodies, body)
        attackers.send(heads, HALF_HEAD)
        time.sleep(0.5)
        with dripping(socks, drop):
            return measure(world, 5)


def prepared(world: World) -> World:
    world.allow()
    world.provider()
    assert world.ask("a first question").status_code == 200
    return world


@promise("Half heads and half bodies of one address stop nobody", target="every work request 200")
@pytest.mark.parametrize(
    "framing",
    first_of(SHORT, LONG, CHUNKED),
    ids=["short", "long", "chunked"],
)
@pytest.mark.parametrize("is_work", first_of(True, False), ids=["work", "login"])
def test_half_sent_requests_stop_nobody(own_gateway, figure, framing, is_work):
    world = prepared(own_gateway(GATEWAY_THREADS="64", GATEWAY_KEY_REQUESTS_PER_MINUTE="0", **PATIENT))
    body = work_body(world, framing) if is_work else login_body(framing)
    attacked = under_attack(world, 70, 70, body, PIECES[framing])
    figure(attacked)
    print(f"attacked: {attacked}")
    assert set(attacked.statuses) == {200}, attacked.refusals
    assert attacked.health_p99 <= bound(HEALTH_SECONDS)


@promise("A body that arrives late or in two parts is served, also while others send theirs slowly", target="200")
@pytest.mark.parametrize("size", first_of(60_000, 1_000, 300_000))
def test_a_body_behind_its_head_is_served_while_others_are_slow(own_gateway, size):
    world = prepared(own_gateway(GATEWAY_THREADS="64", GATEWAY_KEY_REQUESTS_PER_MINUTE="0"))
    text = b'{"model": "%b", "prompt": "%b"}' % (world.model.encode(), b"x" * size)
    with ExitStack() as resources:
        attackers = Attackers(world.gateway.port, resources)
        attackers.send(70, login_body(SHORT))
        attackers.send(70, HALF_HEAD)
        sock = world.connect(f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\nConnection: close")
        for start in range(0, len(text), 1 + len(text) // 3):
            time.sleep(0.1)
            sock.sendall(text[start : start + 1 + len(text) // 3])
        assert status_of(received(sock)) == 200


@promise("One address has a bounded number of connections", target="other addresses are served")
def test_connections_of_one_address_are_bounded(own_gateway):
    world = prepared(own_gateway(GATEWAY_THREADS="64", GATEWAY_CONNECTIONS_PER_ADDRESS="40"))
    with ExitStack() as resources:
        attackers = Attackers(world.gateway.port, resources)
        socks = attackers.send(60, HALF_HEAD, "127.0.1.9")
        for sock in socks[40:]:
            assert received(sock) == b""
        assert world.ask("from another address").status_code == 200
        socks[0].close()
        deadline = time.monotonic() + patience(5)
        while not is_served(attackers, "127.0.1.9"):
            assert time.monotonic() < deadline


@promise("Behind a trusted proxy the address that it reports counts", target="other addresses are served")
def test_a_proxy_may_have_many_connections_and_each_of_its_clients_few(own_gateway):
    world = prepared(
        own_gateway(
            GATEWAY_THREADS="64",
            GATEWAY_CONNECTIONS_PER_ADDRESS="4",
            GATEWAY_TRUSTED_PROXIES="127.0.0.1",
            GATEWAY_FIRST_BYTE_TIMEOUT="20",
            GATEWAY_TOTAL_TIMEOUT="20",
        )
    )
    with ExitStack() as resources:
        attackers = Attackers(world.gateway.port, resources)
        attackers.send(20, HALF_HEAD)  # the proxy's own connections
        slow = world.provider("slow")
        slow.default.delay = 8
        for number in range(4):
            world.send({"model": "slow", "messages": [{"role": "user", "content": str(number)}]},
                       "X-Forwarded-For: 198.51.100.7")  # fmt: skip
        slow.wait_for(4)
        refused = world.ask("of the same client", headers={"X-Forwarded-For": "198.51.100.7"})
        assert (refused.status_code, refused.json()["exception"]) == (503, "ServiceUnavailable")
        assert refused.headers["Retry-After"]
        assert world.ask("of another client", headers={"X-Forwarded-For": "198.51.100.8"}).status_code == 200


def is_served(attackers: Attackers, address: str) -> bool:
    (sock,) = attackers.send(1, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", address)
    return status_of(received(sock)) == 200


@pytest.mark.slow
@promise(
    "610 one-byte bodies and 700 half heads of one address stop nobody", target="healthz p99 ≤ 250 ms, work ≥ 80 %"
)
def test_slow_clients_of_one_address_take_nothing(own_gateway, figure):
    usual = {"GATEWAY_THREADS": "1200", "GATEWAY_CLIENT_TIMEOUT": "20", "GATEWAY_KEY_REQUESTS_PER_MINUTE": "0"}
    world = prepared(own_gateway(**usual))
    quiet = measure(world, 4)
    attacked = under_attack(world, 610, 700, login_body(SHORT), b"")
    figure(f"{attacked}; quiet: {quiet}")
    print(f"quiet: {quiet}\nattacked: {attacked}")
    assert set(attacked.statuses) == {200}
    assert attacked.health_p99 <= HEALTH_SECONDS
    assert attacked.throughput >= SHARE * quiet.throughput
