"""One caller who asks for everything leaves room for the others."""

import json
import select
import time
from collections import Counter
from contextlib import ExitStack
from socket import socket

import pytest
import requests

from tests.support.floods import PATIENT, Attackers
from tests.support.management import token_of
from tests.support.promises import promise
from tests.support.world import World, response_on

pytestmark = pytest.mark.either_store

ANSWER_SECONDS = 12  # all requests of the attack come within one answer's time
ADDRESSES = 14


def ask(world, credential, number):
    body = {"model": world.model, "messages": [{"role": "user", "content": f"prompt {number}"}]}
    headers = {"Authorization": f"Bearer {credential}"}
    return requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=30)


def request_of(world: World, token: str, number: int) -> bytes:
    body = json.dumps({"model": "slow", "messages": [{"role": "user", "content": f"prompt {number}"}]}).encode()
    head = f"POST /work HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def flood(world: World, attackers: Attackers, token: str, number: int) -> list[socket]:
    """The connections of so many requests on one token, from a few addresses."""
    socks = []
    for index in range(number):
        socks += attackers.send(1, request_of(world, token, index), f"127.0.1.{index % ADDRESSES + 1}")
    return socks


def number_answered(socks: list[socket]) -> int:
    """How many of these connections have something to read."""
    poller = select.poll()
    for sock in socks:
        poller.register(sock, select.POLLIN)
    return len(poller.poll(0))


@promise("Many slow requests on one access token leave room for other users", target="the other user: 200")
@pytest.mark.parametrize(
    ("threads", "number", "allowed"), [(64, 160, 16), pytest.param(1200, 1260, 150, marks=pytest.mark.slow)]
)
def test_many_slow_requests_on_one_access_token(own_gateway, figure, threads, number, allowed):
    # Without a value the settings have their defaults.
    world = own_gateway(
        **PATIENT, GATEWAY_THREADS=str(threads), GATEWAY_USER_CONCURRENT="", GATEWAY_LOGIN_REQUESTS_PER_MINUTE=""
    )
    world.allow(everyone="user")
    world.provider()
    slow = world.provider("slow")
    slow.default.delay = ANSWER_SECONDS
    other = world.new_key(owner=world.new_user()).text
    token = token_of(world.user)
    world.settle()
    assert ask(world, other, "first").status_code == 200
    with ExitStack() as resources:
        start = time.monotonic()
        socks = flood(world, Attackers(world.gateway.port, resources), token, number)
        world.until(lambda: number_answered(socks) >= number - allowed)  # the others wait for the provider
        statuses = [ask(world, other, f"another {index}").status_code for index in range(10)]
        assert time.monotonic() - start < ANSWER_SECONDS, "the first answers have come: this machine was too slow"
        answers = [response_on(sock) for sock in socks]
    assert statuses == [200] * 10
    codes = Counter(answer.status for answer in answers)
    refusals = [json.loads(answer.text)["message"] for answer in answers if answer.status == 429]
    figure(f"{codes[429]} of {number} refused, the other user served")
    assert set(codes) <= {200, 429, 503}, "503: while they all arrive"
    assert 0 < codes[200] <= allowed
    limit = f"The limit of user {world.user.username} ({allowed} concurrent requests) is reached. "
    assert [message for message in refusals if message.startswith(limit)], refusals


@promise("An access token has a limit of requests", target="the 429 names it")
def test_requests_on_one_access_token(own_gateway):
    world = own_gateway(GATEWAY_LOGIN_REQUESTS_PER_MINUTE="10")
    world.allow(everyone="user")
    world.provider()
    token = token_of(world.user)
    answers = [ask(world, token, 1) for _ in range(25)]
    codes = Counter(answer.status_code for answer in answers)
    assert set(codes) == {200, 429}
    assert codes[200] <= 20, "the minute may change midway"
    limit = f"The request limit of login {world.user.username} (10 requests per minute) is used up. It resets at "
    assert all(answer.json()["message"].startswith(limit) for answer in answers if answer.status_code == 429)
