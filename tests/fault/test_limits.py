"""Limits of two replicas while workers die and Redis forgets, goes away and comes back: exact, and never unlimited."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest
import requests

from gateway_project.work.limits.checks import DAY, LEASE_SECONDS
from licensing.models import Limit
from tests.end_to_end.test_limits import left
from tests.fault.conftest import UNLIMITED
from tests.support.fault_proxy import FaultProxy
from tests.support.load import wait_until
from tests.support.pace import patience
from tests.support.provider_answers import Answer
from tests.support.running import RunningGateway, Store
from tests.support.servers import OwnRedis, own_redis
from tests.support.world import World, ready

pytestmark = pytest.mark.servers
USED = {"prompt_tokens": 10, "completion_tokens": 20}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)  # every process knows of such a limit: nobody has to wait for that


@pytest.fixture(scope="module")
def replicas(store: Store, tmp_path_factory) -> Iterator[tuple[list[RunningGateway], OwnRedis, FaultProxy]]:
    """Two gateways of one process each, with a Redis of their own behind a proxy."""
    environ = {
        "GATEWAY_REDIS_PREFIX": "limits",
        "GATEWAY_PROCESSES": "2",
        **UNLIMITED,
        "GATEWAY_TOTAL_TIMEOUT": "60",
        "GATEWAY_FIRST_BYTE_TIMEOUT": "60",
    }
    with ExitStack() as resources:
        server = resources.enter_context(own_redis())
        proxy = resources.enter_context(FaultProxy(server.url))
        made = [
            RunningGateway(store, tmp_path_factory.mktemp(name), **environ, REDIS_URL=proxy.url)
            for name in ("one", "two")
        ]
        yield [resources.enter_context(gateway) for gateway in made], server, proxy


@pytest.fixture
def pair(replicas, orm) -> Iterator[tuple[World, World]]:
    """The first one's world arranges, the second only asks."""
    with ExitStack() as resources:
        one, two = (World(gateway, resources) for gateway in replicas[0])
        one.allow()
        one.provider().default = Answer(usage=USED)
        one.settle()
        two.settle()
        yield one, two
        replicas[2].heal()
        wait_until(lambda: ready(one) and ready(two), 20, "/readyz 200")


def limited(world: World, **amounts: int) -> str:
    """A key with limits: limited(world, requests_month=5, concurrent_none=1)."""
    issued = world.new_key()
    for name, amount in amounts.items():
        measure, window = name.split("_")
        Limit.objects.create(key=issued.key, measure=measure, window=window, amount=amount, bounds_since=LONG_AGO)
    if time.time() % DAY > DAY - 60:  # on one day
        time.sleep(60)
    return issued.text


def ask(world: World, asked: World, key: str, prompt: str = "Hello!", **body: object) -> requests.Response:
    """One replica asked, over a connection of its own, for what the first one's world arranged."""
    body = {"model": world.model, "messages": [{"role": "user", "content": prompt}]} | body
    headers = {"Authorization": f"Bearer {key}", "Connection": "close", "X-Svc-Cache": "bypass"}
    return requests.post(f"{asked.gateway.url}/work", json=body, headers=headers, timeout=patience(20))


def many(pair: tuple[World, World], key: str, count: int, **body: object) -> list[int]:
    """The statuses of so many requests at once, at both replicas in turn."""
    with ThreadPoolExecutor(20) as pool:
        return list(pool.map(lambda n: ask(pair[0], pair[n % 2], key, str(n), **body).status_code, range(count)))


def test_replicas_share_every_limit_of_a_key(pair):
    one, two = pair
    key = limited(one, requests_month=30)
    codes = many(pair, key, 60)
    assert (codes.count(200), codes.count(429)) == (30, 30)
    tokens = limited(one, tokens_day=600, concurrent_none=20)
    codes = many(pair, tokens, 60, max_tokens=20)
    # Each uses 30 tokens, and may come to fewer: the last of those in flight at once are let in up to the limit.
    assert codes.count(200) >= 20
    assert ask(one, two, tokens, max_tokens=20).status_code == 429


@pytest.mark.killed("in the middle of requests")
def test_what_a_killed_worker_held_is_free_again(pair):
    one, two = pair
    slow = one.provider(f"{one.model}-slow")
    slow.default.delay = 50
    concurrent, tokens = limited(one, concurrent_none=1), limited(one, tokens_day=1000)
    one.settle()
    threads = [threading.Thread(target=hang, args=[one, key]) for key in (concurrent, tokens)]
    for thread in threads:
        thread.start()
    slow.wait_for(2)
    for key in (concurrent, tokens):
        assert ask(one, two, key, max_tokens=500).status_code == 429
    for pid in one.gateway.workers():
        os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join(20)
    for key in (concurrent, tokens):
        wait_until(lambda key=key: ask(one, two, key, max_tokens=500).status_code == 200, LEASE_SECONDS + 5, "room")
    wait_until(lambda: ready(one), 20, "a new worker")


def hang(world: World, key: str) -> None:
    world.unanswered += 1
    with pytest.raises(requests.RequestException):
        ask(world, world, key, model=f"{world.model}-slow", max_tokens=900)


def test_a_flushed_redis_knows_from_the_log_what_was_used(pair, replicas):
    one, two = pair
    key = limited(one, requests_month=50, tokens_month=5000)
    slow = one.provider(f"{one.model}-slow")
    slow.default = Answer(usage=USED, delay=2.0)
    one.settle()
    two.settle()
    for number in range(6):
        assert ask(one, pair[number % 2], key).status_code == 200
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(ask, one, asked, key, model=f"{one.model}-slow") for asked in pair]
        slow.wait_for(2)
        with replicas[1].client() as client:
            client.flushall()
        told = ask(one, two, key, max_tokens=10)
        assert [one.result().status_code for one in running] == [200, 200]
    # The six of before are in the log; those that were under way count themselves, unless they had ended by then.
    assert 50 - 9 <= left(told, "key-month") <= 50 - 7
    told = ask(one, one, key, max_tokens=10)
    assert (left(told, "key-month"), left(told, "key-tokens-month")) == (50 - 10, 5000 - 10 * 30)


def test_without_redis_each_process_lets_its_share_in_and_redis_hears_of_it_when_it_is_back(pair, replicas):
    one, two = pair
    key = limited(one, requests_day=40)
    assert [ask(one, pair[number % 2], key).status_code for number in range(10)] == [200] * 10
    replicas[2].refuse()
    wait_until(lambda: not ready(one) and not ready(two), 20, "/readyz 503")
    codes = many(pair, key, 60)
    served = codes.count(200)
    assert (codes.count(429), set(codes)) == (60 - served, {200, 429})
    # Each knows how it stood when it asked last: after the ninth and the tenth request.
    assert 28 <= served <= 30
    replicas[2].heal()
    wait_until(lambda: ready(one) and ready(two), 20, "/readyz 200")
    codes = [ask(one, pair[number % 2], key).status_code for number in range(6)]
    assert codes.count(200) == 30 - served, "what was served without it counts"
    assert codes[-1] == 429


def test_counts_outlive_the_gateway_and_are_read_from_the_log_when_redis_starts_anew_with_it(pair, replicas):
    one, two = pair
    key = limited(one, requests_day=6)
    assert [ask(one, asked, key).status_code for asked in (one, two, one)] == [200] * 3
    one.gateway.stop()
    one.gateway.start()
    assert left(ask(one, one, key), "key-day") == 2
    replicas[1].stop()
    replicas[1].start()
    wait_until(lambda: ready(one) and ready(two), 20, "/readyz 200")
    assert left(ask(one, two, key), "key-day") == 1
    assert [ask(one, asked, key).status_code for asked in (one, two, one)] == [200, 429, 429]
