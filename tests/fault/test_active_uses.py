"""Active uses across replicas: exact under load, free again when a worker is killed, and shared out without Redis."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import requests

from gateway_project.work.limits.checks import LEASE_SECONDS
from tests.support.fault_proxy import FaultProxy
from tests.support.load import wait_until
from tests.support.management import Client, new_admin
from tests.support.pace import patience
from tests.support.running import RunningGateway, fresh_store
from tests.support.servers import own_redis
from tests.support.world import World, keys_of_users, ready

pytestmark = pytest.mark.servers
MOST = 6


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[tuple[RunningGateway, RunningGateway, FaultProxy]]:
    """Two gateways of two workers each on a store and a Redis of their own."""
    environ = {
        "WEB_CONCURRENCY": "2",
        "GATEWAY_PROCESSES": "4",
        "GATEWAY_MAX_ACTIVE_USES": str(MOST),
        "GATEWAY_ACTIVE_USE_SECONDS": "1",
        "GATEWAY_KEY_REQUESTS_PER_MINUTE": "0",
        "GATEWAY_TOTAL_TIMEOUT": "60",
        "GATEWAY_FIRST_BYTE_TIMEOUT": "60",
    }
    with ExitStack() as resources:
        store = resources.enter_context(fresh_store(tmp_path_factory.mktemp("store")))
        proxy = resources.enter_context(FaultProxy(resources.enter_context(own_redis()).url))
        environ["REDIS_URL"] = proxy.url
        directories = [tmp_path_factory.mktemp(name) for name in ("one", "two")]
        gateways = [resources.enter_context(RunningGateway(store, where, **environ)) for where in directories]
        yield *gateways, proxy


@pytest.fixture
def worlds(pair, django_db_blocker) -> Iterator[tuple[World, World]]:
    with django_db_blocker.unblock(), pair[0].store.used_by_orm(), ExitStack() as resources:
        one, two = World(pair[0], resources), World(pair[1], resources)
        one.allow(everyone="user")
        one.provider()
        one.settle()
        two.settle()
        yield one, two
        pair[2].heal()
        wait_until(lambda: ready(one) and ready(two), 10, "/readyz 200")
        wait_until(lambda: current(one) == 0, LEASE_SECONDS + 15, "the end of all uses")


def current(world: World) -> int:
    client = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    return client.get("/stats/?days=1").json()["data"]["stats"]["currentUses"]


def ask_at(world: World, asked: World, key: str, **headers: str) -> requests.Response:
    """One replica asked over a new connection, which any of its workers may take."""
    body = {"model": asked.model, "messages": [{"role": "user", "content": f"Hello {random.random()}!"}]}
    headers = {"Authorization": f"Bearer {key}", "Connection": "close", **headers}
    return requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=patience(20))


def test_two_replicas_of_two_workers_let_exactly_so_many_users_in(worlds):
    one, _ = worlds
    keys = keys_of_users(one, 3 * MOST)
    gate = threading.Barrier(50)

    def press(number: int) -> list[tuple[str, int]]:
        gate.wait()
        chosen = [keys[(number + step) % len(keys)] for step in range(4)]
        return [(key, ask_at(worlds[number % 2], one, key).status_code) for key in chosen]

    with ThreadPoolExecutor(50) as pool:
        told = [answer for some in pool.map(press, range(50)) for answer in some]
    assert {status for _, status in told} == {200, 429}
    assert current(one) <= MOST
    wait_until(lambda: current(one) == 0, 15, "the end of all uses")
    with ThreadPoolExecutor(MOST) as pool:  # whoever comes now finds room, up to the last place, at whichever worker
        fresh = list(pool.map(lambda n: ask_at(worlds[n % 2], one, keys[n]).status_code, range(MOST)))
    assert fresh == [200] * MOST


@pytest.mark.killed("in the middle of requests")
def test_the_use_of_a_killed_worker_lapses_by_itself(worlds):
    one, two = worlds
    provider = one.provider(f"{one.model}-slow")
    provider.default.delay = 40
    held, waiting = keys_of_users(one, MOST), keys_of_users(one, 1)[0]

    def hang(key: str) -> None:
        body = {"model": f"{one.model}-slow", "messages": [{"role": "user", "content": key}]}
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        one.unanswered += 1
        with pytest.raises(requests.RequestException):
            requests.post(f"{one.gateway.url}/work", json=body, headers=headers, timeout=patience(20))

    threads = [threading.Thread(target=hang, args=[key]) for key in held]
    for thread in threads:
        thread.start()
    provider.wait_for(MOST)
    assert ask_at(two, one, waiting).status_code == 429
    for pid in one.gateway.workers():
        os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join(20)
    wait_until(lambda: ask_at(two, one, waiting).status_code == 200, LEASE_SECONDS + 5, "room for another user")
    wait_until(lambda: ready(one), 20, "new workers")


def test_without_redis_each_process_lets_its_share_in(worlds, pair):
    one, two = worlds
    keys = keys_of_users(one, 4 * MOST)
    assert ask_at(one, one, keys[0]).status_code == 200
    pair[2].refuse()
    wait_until(lambda: not ready(one) and not ready(two), 10, "/readyz 503")
    statuses = [ask_at(worlds[number % 2], one, key).status_code for number, key in enumerate(keys)]
    assert set(statuses) <= {200, 429}
    assert 1 <= statuses.count(200) <= MOST
