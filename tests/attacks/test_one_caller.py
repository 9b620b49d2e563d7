"""One caller who asks for everything leaves room for the others."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import requests

from tests.support.management import token_of
from tests.support.promises import promise
from tests.support.provider_answers import Answer


def ask(world, credential, number):
    sent = {"model": world.model, "messages": [{"role": "user", "content": f"prompt {number}"}]}
    headers = {"Authorization": f"Bearer {credential}"}
    return requests.post(f"{world.gateway.url}/work", json=sent, headers=headers, timeout=30).status_code


@promise("Many slow requests on one access token leave room for other users", target="the other user: 200")
def test_many_slow_requests_on_one_access_token(own_gateway, figure):
    world = own_gateway(GATEWAY_THREADS="32", GATEWAY_USER_CONCURRENT="4")
    world.allow(everyone="user")
    provider = world.provider()
    provider.default = Answer(text="slow", delay=1.5)
    other = world.new_key(owner=world.new_user()).text
    token = token_of(world.user)
    world.settle()
    with ThreadPoolExecutor(80) as pool:
        flood = []
        for number in range(80):  # all within one answer's time, but not more at one moment than there are threads
            flood.append(pool.submit(ask, world, token, number))
            time.sleep(0.015)
        assert ask(world, other, "another") == 200
        codes = Counter(request.result() for request in flood)
    assert codes[429] > 0
    assert codes[503] == 0
    figure(f"{codes[429]} of 80 refused, the other user served")


@promise("An access token has a limit of requests", target="the 429 names it")
def test_requests_on_one_access_token(own_gateway):
    world = own_gateway(GATEWAY_LOGIN_REQUESTS_PER_MINUTE="10")
    world.allow(everyone="user")
    world.provider()
    token = token_of(world.user)
    codes = Counter(ask(world, token, 1) for _ in range(25))
    assert set(codes) == {200, 429}
    assert codes[200] <= 20, "the minute may change midway"
