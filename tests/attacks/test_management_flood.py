"""Reading the management API and the console, however often at once, takes no thread from work."""

from collections import Counter
from contextlib import ExitStack

import pytest

from gateway_project.server.connections.management import TOO_MANY
from tests.support.floods import PATIENT, Attackers, measuring, received
from tests.support.login_flood import status_of
from tests.support.management import token_of
from tests.support.pace import bound
from tests.support.promises import promise
from tests.support.thoroughness import first_of

pytestmark = pytest.mark.embedded

THREADS = 128
FLOOD = 160  # requests at once: more than threads
WAVES = 3


def head(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *lines, "", ""]).encode()


@promise(
    "Reading the log, pages or models in great numbers leaves room for work",
    target="every work request 200; healthz p99 ≤ 1 s",
)
@pytest.mark.parametrize("path", first_of("/logs/", "/admin/login/", "/v1/models"))
@pytest.mark.parametrize("addresses", first_of(1, FLOOD), ids=["one address", "many addresses"])
def test_reading_in_great_numbers_leaves_room_for_work(own_gateway, figure, path, addresses):
    world = own_gateway(GATEWAY_THREADS=str(THREADS), GATEWAY_KEY_REQUESTS_PER_MINUTE="0", **PATIENT)
    world.allow(everyone="user")
    world.provider()
    assert world.ask("a first question").status_code == 200
    request = head(path, f"Authorization: Bearer {token_of(world.user)}" if path != "/admin/login/" else "Accept: */*")
    world.settle()
    answers = []
    with measuring(world) as measurement:
        for _ in range(WAVES):
            answers += flood(world.gateway.port, request, addresses)
    statuses = Counter(map(status_of, answers))
    figure(f"{measurement}; the others: {dict(statuses)}")
    print(f"{measurement}; the others: {dict(statuses)}")
    assert set(measurement.statuses) == {200}, measurement.refusals
    assert measurement.health_p99 <= bound(1)
    assert statuses[200] > 0
    refusals = [answer for answer in answers if status_of(answer) == 503]
    assert all(b"Retry-After: 1\r\n" in answer and TOO_MANY.encode() in answer for answer in refusals)


def flood(port: int, request: bytes, addresses: int) -> list[bytes]:
    """The answers to as many requests at once, from so many addresses."""
    with ExitStack() as resources:
        attackers = Attackers(port, resources)
        socks = [attackers.connect(f"127.0.1.{number % addresses + 1}") for number in range(FLOOD)]
        for sock in socks:
            sock.sendall(request)
        return [received(sock) for sock in socks]
