"""Fixtures of the fault tests: gateways of their own, and stores that can be made to fail."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.fault_proxy import FaultProxy
from tests.support.running import RunningGateway, Store
from tests.support.world import World

# Load is meant to reach what it is aimed at.
UNLIMITED = {"GATEWAY_KEY_REQUESTS_PER_MINUTE": "0"}

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
            return World(running, resources)

        yield starting


@pytest.fixture
def database_proxy(store: Store) -> Iterator[FaultProxy]:
    """The store's PostgreSQL behind a proxy."""
    with FaultProxy(store.database_url) as proxy:
        yield proxy


def has_servers() -> bool:
    return os.environ.get("DATABASE_URL", "").startswith("postgres") and bool(os.environ.get("REDIS_URL"))
