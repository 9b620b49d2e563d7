"""Fixtures of the fault tests: gateways of their own, and stores that can be made to fail.

After each test its books have to balance, and its gateways to hold no more than before (tests/support/balance.py).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.balance import COUNTED, Balance
from tests.support.fault_proxy import FaultProxy
from tests.support.running import RunningGateway, Store
from tests.support.world import World

# Load is meant to reach what it is aimed at, and a use of the licence ends a second after the request.
UNLIMITED = {"GATEWAY_KEY_REQUESTS_PER_MINUTE": "0", "GATEWAY_ACTIVE_USE_SECONDS": "1"}
BALANCED = pytest.mark.promise(
    "After a fault the books balance, and threads, files and memory are back",
    "log = responses and provider calls, usage = log, limits = log, uses 0",
)

Start = Callable[..., World]


@pytest.fixture
def start(store: Store, orm: None, tmp_path: Path) -> Iterator[Start]:
    """Starts gateways on one store, each with a directory of its own: start("one", GATEWAY_THREADS="8") -> World."""
    with ExitStack() as resources:

        def starting(name: str = "one", **environ: str) -> World:
            directory = tmp_path / name
            directory.mkdir(exist_ok=True)
            running = RunningGateway(store, directory, **(UNLIMITED | environ))
            resources.push(running.__exit__)
            running.start()
            world = World(running, resources)
            world.user_limits = COUNTED
            return world

        yield starting


@pytest.fixture
def database_proxy(store: Store) -> Iterator[FaultProxy]:
    """The store's PostgreSQL behind a proxy."""
    with FaultProxy(store.database_url) as proxy:
        yield proxy


def has_servers() -> bool:
    return os.environ.get("DATABASE_URL", "").startswith("postgres") and bool(os.environ.get("REDIS_URL"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a test here shows besides its own promise."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("promise"):
            item.user_properties.append(("promise", list(BALANCED.args)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """After the test and before its gateways end: what it broke is healed, and everything is accounted for.

    `@pytest.mark.killed(reason)` is for tests in which a process dies in the middle of requests, and
    `@pytest.mark.unbalanced(reason)` for those after which no gateway can be asked.
    """
    is_checked = "orm" in getattr(item, "fixturenames", ()) and item.get_closest_marker("unbalanced") is None
    balance = Balance() if is_checked else None
    result = yield
    if balance:
        balance.check(was_killed=item.get_closest_marker("killed") is not None)
    return result
