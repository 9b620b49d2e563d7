"""Clients that vanish in each phase of a request: the provider is hung up on, and nothing of them stays."""

import socket
import struct
import time

import pytest

from tests.support.balance import is_idle
from tests.support.load import wait_until
from tests.support.pace import bound
from tests.support.promises import promise
from tests.support.provider_answers import Answer
from tests.support.world import World

pytestmark = [pytest.mark.either_store, pytest.mark.slow]

COUNT, THREADS = 60, 16
HANG_UP_SECONDS = 2
EVENT = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
NO_LINGER = struct.pack("ii", 1, 0)
PHASES = ["in the head", "in the body", "waiting for the answer", "waiting for a stream", "in the stream"]


@pytest.fixture
def world(start) -> World:
    world = start(GATEWAY_THREADS=str(THREADS), GATEWAY_TOTAL_TIMEOUT="60", GATEWAY_FIRST_BYTE_TIMEOUT="60")
    world.allow()
    return world


def leave(sock: socket.socket, goodbye: str) -> None:
    if goodbye == "rst":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    sock.close()


def begin(world: World, phase: str, number: int) -> socket.socket:
    """A request that has come as far as this phase."""
    head = f"X-Svc-Request-ID: gone-{world.number}-{number}"
    if phase == "in the head":
        return world.connect(head)
    if phase == "in the body":
        return world.connect(f"{head}\r\nContent-Type: application/json\r\nContent-Length: 1000", b'{"model": ')
    content = f"prompt {number}"
    body = {"messages": [{"role": "user", "content": content}], "stream": phase != "waiting for the answer"}
    return world.send(body, head)


@promise("A client that vanishes ends its provider's call, and holds nothing", target="hung up on within 2 s, 60 of 60")
@pytest.mark.parametrize("goodbye", ["fin", "rst"])
@pytest.mark.parametrize("phase", PHASES)
def test_clients_vanish(world, phase, goodbye, figure):
    provider = world.provider()
    is_asked = phase not in ("in the head", "in the body")
    assert world.ask("before").status_code == 200
    provider.reset()
    provider.default = Answer(stream=[EVENT] * 1000, pace=0.05) if phase == "in the stream" else Answer(delay=50)
    world.answers.clear()
    for round_ in range(0, COUNT, 12):
        socks = [begin(world, phase, round_ + number) for number in range(12)]
        if is_asked:
            provider.wait_for(round_ + 12)
        if phase == "in the stream":
            for sock in socks:
                assert b"200 OK" in sock.recv(4096)
        time.sleep(0.1)
        for sock in socks:
            leave(sock, goodbye)
        if is_asked:
            provider.wait_idle(5)
            wait_until(lambda: is_idle(world.gateway), 5)  # its threads are free for the next ones
    if is_asked:
        ids = [f"gone-{world.number}-{number}" for number in range(COUNT)]
        gone = {"correlation_id__in": ids, "outcome": "client_closed"}
        wait_until(lambda: world.entries(**gone) == COUNT, 10, lambda: f"{world.entries(**gone)} of {COUNT} entries")
        longest = max(seen.wait_closed(5) for seen in provider.seen)
        assert longest <= bound(HANG_UP_SECONDS)  # since the request came, a little before the client left
        figure({"s at most": longest})
    provider.default = Answer()
    assert world.ask("after").status_code == 200
