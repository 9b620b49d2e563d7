"""Replicas count each other while Redis answers, and share every limit by that count while it does not."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import requests

from tests.support.load import wait_until
from tests.support.metrics import samples
from tests.support.pace import in_one_minute, patience
from tests.support.running import RunningGateway, Store
from tests.support.servers import OwnRedis, own_redis
from tests.support.world import World, limited_key

pytestmark = pytest.mark.servers
LIMIT = 60


@pytest.fixture
def replicas(store: Store, orm, tmp_path) -> Iterator[tuple[list[World], OwnRedis]]:
    """Two gateways, one of them with two processes, which nobody told how many they are; with a Redis of their own."""
    with ExitStack() as resources:
        server = resources.enter_context(own_redis())
        worlds = []
        for name, workers in (("one", "1"), ("two", "2")):
            (tmp_path / name).mkdir()
            gateway = RunningGateway(store, tmp_path / name, REDIS_URL=server.url, WEB_CONCURRENCY=workers)
            worlds.append(World(resources.enter_context(gateway), resources))
        worlds[0].allow()
        worlds[0].provider()
        yield worlds, server


def statuses(worlds: list[World], key: str, count: int) -> list[int]:
    """The statuses of so many requests, at both replicas in turn, each over a connection of its own."""
    model = worlds[0].model
    headers = {"Authorization": f"Bearer {key}", "Connection": "close", "X-Svc-Cache": "bypass"}

    def ask(number: int) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": str(number)}]}
        url = f"{worlds[number % 2].gateway.url}/work"
        return requests.post(url, json=body, headers=headers, timeout=patience(20)).status_code

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, range(count)))


def counted(worlds: list[World]) -> set[float]:
    """What all their processes know of their number."""
    return {value for world in worlds for value in samples(world, "processes").values()}


def test_without_redis_they_admit_no_more_than_the_limit_together(replicas):
    worlds, server = replicas
    key = limited_key(worlds[0], LIMIT)
    for world in worlds:
        world.settle()
    wait_until(lambda: counted(worlds) == {3}, 30, "all processes counted")
    in_one_minute(30)
    server.stop()
    codes = statuses(worlds, key, 4 * LIMIT)
    assert set(codes) == {200, 429}
    assert LIMIT / 2 < codes.count(200) <= LIMIT
