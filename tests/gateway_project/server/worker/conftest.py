"""A gateway with few threads and short time-outs."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.running import RunningGateway, Store
from tests.support.stalling_clients import LIMIT, THREADS
from tests.support.world import World


@pytest.fixture(scope="module")
def small(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with few threads and short time-outs."""
    environ = {
        "GATEWAY_THREADS": str(THREADS),
        "GATEWAY_CLIENT_TIMEOUT": str(LIMIT),
        "GATEWAY_TOTAL_TIMEOUT": "60",
    }
    with RunningGateway(store, tmp_path_factory.mktemp("worker"), **environ) as running:
        yield running


@pytest.fixture
def world(small: RunningGateway, orm: None) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(small, resources)
