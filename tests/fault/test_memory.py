"""What a burst of streams takes: memory for those in flight; what waits for the database is on the disk alone."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.fault.burst import Burst
from tests.support.load import wait_until
from tests.support.running import RunningGateway

MIB = 1024 * 1024
STREAMS, AT_ONCE, ANSWER_BYTES = 3000, 64, 13_000


def resident(gateway: RunningGateway) -> int:
    """Memory of the worker in bytes, mapped files included."""
    (pid,) = gateway.workers()
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["VmRSS"].split()[0]) * 1024


def journal_size(gateway: RunningGateway) -> int:
    return sum(path.stat().st_size for path in gateway.directory.rglob("*.segment"))


@contextmanager
def peak_of(gateway: RunningGateway) -> Iterator[list[int]]:
    """The most memory that the worker has inside the block, as the list's only item."""
    peak, is_over = [resident(gateway)], threading.Event()

    def sample() -> None:
        while not is_over.wait(0.02):
            peak[0] = max(peak[0], resident(gateway))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        is_over.set()
        sampler.join()


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("database", ["away", "slow"])
def test_a_burst_of_streams_stays_in_memory_only_while_it_is_answered(start, database_proxy, database):
    environ = {"GATEWAY_LOG_PAYLOAD": "full", "GATEWAY_TOTAL_TIMEOUT": "60", "GATEWAY_FIRST_BYTE_TIMEOUT": "60"}
    world = start(DATABASE_URL=database_proxy.url, GATEWAY_THREADS="128", **environ)
    with asyncio.Runner() as runner:
        burst = Burst(size=ANSWER_BYTES)
        runner.run(burst.serve())
        world.allow()
        world.provider(url=f"http://127.0.0.1:{burst.port}/v1")
        assert world.key
        world.settle()

        def send(count: int) -> None:
            runner.run(burst.send(world.gateway.port, world.key, world.model, count=count, at_once=AT_ONCE))

        send(200)
        rest, before = resident(world.gateway), journal_size(world.gateway)
        database_proxy.refuse() if database == "away" else database_proxy.slow(1)
        with peak_of(world.gateway) as peak:
            send(STREAMS)
        assert burst.failures == []
        assert journal_size(world.gateway) - before > 80 * MIB
        assert peak[0] - rest < 48 * MIB
        database_proxy.heal()
        with peak_of(world.gateway) as peak:
            wait_until(lambda: world.entries(user_id=world.user.pk) == STREAMS + 200, 60, "an entry for each")
        assert peak[0] - rest < 64 * MIB
