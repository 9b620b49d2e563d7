"""Clients that read their answers slowly, or not at all: they take a share of the threads, for a bounded time."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.support.floods import measuring
from tests.support.load import wait_until
from tests.support.pace import bound
from tests.support.promises import promise
from tests.support.thoroughness import first_of
from tests.support.world import World

pytestmark = pytest.mark.embedded

THREADS, CLIENTS, CLIENT_TIMEOUT = 64, 200, 6
SEGMENT_BYTES, WINDOW_BYTES = 1448, 4096  # as over Ethernet: on loopback the first segment alone has 64 kB
HEALTH_SECONDS, BURST_SECONDS = 0.25, 5
NEVER, DRIPPING = 0, 512


def attacker(world: World, path: str, resources: ExitStack) -> socket.socket:
    """A client that has asked for a page and has room for little of it."""
    sock = resources.enter_context(socket.socket())
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
    sock.connect(("127.0.0.1", world.gateway.port))
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return sock


def drip(socks: list[socket.socket], size: int, end: threading.Event) -> None:
    """Read a little of each answer, again and again, as long as they come."""
    while not end.wait(0.25):
        for sock in socks:
            sock.setblocking(False)
            try:
                sock.recv(size)
            except OSError:
                continue


def is_serving(world: World) -> bool:
    return all(world.ask(f"{number}").status_code == 200 for number in range(50))


@pytest.fixture
def world(own_gateway: Callable[..., World]) -> World:
    world = own_gateway(
        GATEWAY_THREADS=str(THREADS), GATEWAY_CLIENT_TIMEOUT=str(CLIENT_TIMEOUT), GATEWAY_KEY_REQUESTS_PER_MINUTE="0"
    )
    world.allow()
    world.provider()
    assert world.ask("a first question").status_code == 200
    return world


@promise(
    "Clients that read nothing, or a few bytes a second, stop nobody",
    target="within 5 s every work request 200",
)
@pytest.mark.parametrize("size", first_of(DRIPPING, NEVER), ids=["dripping", "never"])
@pytest.mark.parametrize("path", first_of("/static/unfold/css/styles.css", "/schema/"), ids=["file", "page"])
def test_slow_readers_stop_nobody(world, figure, path, size):
    end = threading.Event()
    with ExitStack() as resources:
        resources.callback(end.set)
        socks = [attacker(world, path, resources) for _ in range(CLIENTS)]
        threading.Thread(target=drip, args=[socks if size else [], size, end], daemon=True).start()
        wait_until(lambda: is_serving(world), BURST_SECONDS, "work served again after the burst of requests")
        with measuring(world) as measurement:
            time.sleep(CLIENT_TIMEOUT)
    figure(measurement)
    assert set(measurement.statuses) == {200}, measurement.refusals
    assert measurement.health_p99 <= bound(HEALTH_SECONDS)
