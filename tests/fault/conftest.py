"""Fixtures of the fault tests: gateways of their own, and stores that can be made to fail.

After each test its books have to balance, and its gateways to hold no more than before (tests/support/balance.py).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.balance import COUNTED, GROWTH, Balance
from tests.support.fault_proxy import FaultProxy
from tests.support.footprint import Footprint
from tests.support.promises import suite_of
from tests.support.running import RunningGateway, Store
from tests.support.world import World

# Load is meant to reach what it is aimed at, and a use of the licence ends a second after the request.
UNLIMITED = {"GATEWAY_KEY_REQUESTS_PER_MINUTE": "0"}
# Of every test here, besides its own promise.
BALANCED = "After each fault the books balance", "log = responses and provider calls, usage = log, limits = log, uses 0"
BACK, TARGET = "After each fault threads, files and memory are back", "growth of a process ≤ {}"
GROWN = pytest.StashKey[dict[str, float]]()

Start = Callable[..., World]


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user has limits that nobody reaches: after the test they are compared with the log."""
    monkeypatch.setattr(World, "counted", COUNTED)


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
            return World(running, resources)

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
        if suite_of(item.path) == "fault" and is_checked(item):
            item.stash[GROWN] = grown = {}
            back = [BACK, TARGET.format(growth_of(item)), grown]
            item.user_properties += [("promise", [*BALANCED, {}]), ("promise", back)]


def is_checked(item: pytest.Item) -> bool:
    return "orm" in getattr(item, "fixturenames", ()) and item.get_closest_marker("unbalanced") is None


def growth_of(item: pytest.Item) -> Footprint:
    """What the gateways of a test may hold more after it."""
    marker = item.get_closest_marker("grows")
    return GROWTH._replace(memory_mib=marker.kwargs["mib"]) if marker else GROWTH


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """After the test and before its gateways end: what it broke is healed, and everything is accounted for.

    `@pytest.mark.full_disk` is for tests in which the journal has no room: what is refused then has no entry.
    `@pytest.mark.killed(reason)` is for tests in which a process dies in the middle of requests, and
    `@pytest.mark.unbalanced(reason)` for those after which no gateway can be asked. After those with
    `@pytest.mark.inexact(reason, ahead=4)` limits may have counted so many requests that the log has not; `behind`: the
    other way round. `@pytest.mark.grows(reason, mib=40)` allows the allocator to keep more.
    """
    balance = Balance() if is_checked(item) else None
    result = yield
    if balance:
        inexact = item.get_closest_marker("inexact")
        bounds = inexact.kwargs if inexact else {}
        was_killed, was_full = (item.get_closest_marker(name) is not None for name in ("killed", "full_disk"))
        growth = balance.check(most=growth_of(item), was_killed=was_killed, was_full=was_full, **bounds)
        item.stash[GROWN].update({"threads": growth.threads, "files": growth.files, "MiB": growth.memory_mib})
    return result
