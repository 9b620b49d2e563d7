"""Uploads that announce much and send nearly nothing: others send long bodies meanwhile, and the slow ones end."""

import time
from contextlib import ExitStack

import pytest

from tests.support.floods import PATIENT, Attackers, received
from tests.support.login_flood import status_of
from tests.support.pace import bound, patience
from tests.support.promises import promise

pytestmark = pytest.mark.embedded

ANNOUNCED = 33_554_432  # 17 of them are more than the memory for bodies
UPLOADS, ATTACKERS = 17, 5  # one user has a quarter of that memory at most
CLIENT_TIMEOUT, TOO_SLOW_SECONDS = 2, 6
LONG = "x" * 100_000


@pytest.fixture
def world(own_gateway):
    world = own_gateway(**PATIENT, GATEWAY_THREADS="64", GATEWAY_CLIENT_TIMEOUT=str(CLIENT_TIMEOUT))
    world.allow()
    world.provider()
    assert world.ask("a first question").status_code == 200
    return world


def head(key: str, framing: str) -> bytes:
    lines = ("POST /work HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}", "Content-Type: application/json")
    return "\r\n".join([*lines, framing, "", ""]).encode()


@promise("Bodies that are announced take no memory from others", target="every long body 200")
def test_announced_bodies_take_nothing_from_others(world, figure):
    users = [world.new_user() for _ in range(ATTACKERS)]
    keys = [world.new_key(owner=user).text for user in users]
    for user in users:
        world.allow(user=user)
    with ExitStack() as resources:
        attackers = Attackers(world.gateway.port, resources)
        for number in range(UPLOADS):
            attackers.send(1, head(keys[number % ATTACKERS], f"Content-Length: {ANNOUNCED}") + b'{"prompt": "')
        time.sleep(0.3)
        statuses = [world.ask(f"{number} {LONG}").status_code for number in range(10)]
        figure(f"{statuses.count(200)} of 10")
        print(statuses)
    assert statuses == [200] * 10


@promise("One user's uploads that stop midway leave others their places", target="every long body of others 200")
def test_uploads_of_one_user_that_stop_leave_others_places(own_gateway, figure):
    """With so much of its body here, each is believed to go on, and has a thread that waits for it."""
    world = own_gateway(**PATIENT, GATEWAY_THREADS="128", GATEWAY_CLIENT_TIMEOUT="20")
    world.allow()
    world.provider()
    assert world.ask("a first question").status_code == 200
    attacker = world.new_user()
    world.allow(user=attacker)
    upload = head(world.new_key(owner=attacker).text, "Content-Length: 150000") + b'{"prompt": "' + b"x" * 20_000
    with ExitStack() as resources:
        attackers = Attackers(world.gateway.port, resources)
        attackers.send(2 * UPLOADS, upload)
        time.sleep(0.3)
        started = time.monotonic()
        statuses = [world.ask(f"{number} {LONG}").status_code for number in range(10)]
        seconds = time.monotonic() - started
        figure(f"{statuses.count(200)} of 10 in {seconds:.1f} s")
    assert statuses == [200] * 10
    assert seconds < patience(3)


@promise(
    "A body that arrives slower than the minimum ends, and its sender reads why",
    target=f"400 within {TOO_SLOW_SECONDS} s",
)
@pytest.mark.parametrize(
    ("framing", "drop"),
    [(f"Content-Length: {ANNOUNCED}", b"x"), ("Transfer-Encoding: chunked", b"1\r\nx\r\n")],
    ids=["long", "chunked"],
)
def test_a_body_that_drips_ends_and_says_why(world, figure, framing, drop):
    with ExitStack() as resources:
        (sock,) = Attackers(world.gateway.port, resources).send(1, head(world.key, framing) + drop)
        sock.settimeout(0.3)
        begun, answer = time.monotonic(), b""
        while not answer and time.monotonic() - begun < patience(20):
            try:
                answer = received(sock)
            except TimeoutError:
                sock.sendall(drop)
        seconds = time.monotonic() - begun
    figure(f"{seconds:.1f} s")
    assert status_of(answer) == 400, answer
    assert b"65536 bytes" in answer
    assert seconds <= bound(TOO_SLOW_SECONDS)


@promise("One user has a share of the memory for bodies, with however many keys", target="others' long bodies 200")
def test_one_user_has_a_share_of_the_memory(own_gateway):
    megabyte = 1024 * 1024
    world = own_gateway(
        GATEWAY_THREADS="64", GATEWAY_MAX_BODY_BYTES=str(megabyte), GATEWAY_MAX_BODIES_BYTES=str(8 * megabyte),
        GATEWAY_FIRST_BYTE_TIMEOUT="60", GATEWAY_TOTAL_TIMEOUT="60",
    )  # fmt: skip
    world.allow()
    attacker = world.new_user()
    world.allow(user=attacker)
    provider = world.provider()
    keys = [world.new_key(owner=attacker).text for _ in range(2)]
    provider.answers(silent=True, silent_limit=60).answers(silent=True, silent_limit=60)
    for number, key in enumerate(keys):
        world.send({"messages": [{"role": "user", "content": f"{number} " + "x" * (megabyte - 2000)}]}, key=key)
    provider.wait_for(2, timeout=30)
    long = "x" * 300_000
    refused = world.ask(f"of the attacker {long}", key=keys[0])
    assert (refused.status_code, refused.json()["exception"]) == (503, "ServiceUnavailable")
    assert "your large requests" in refused.text
    assert world.ask(f"of somebody else {long}").status_code == 200
