"""Two pairs of sockets, and a relay between them."""

from contextlib import ExitStack

import pytest

from gateway_project.work.streaming.relay import Relay
from tests.support.relayed_streams import SILENCE, Road


@pytest.fixture
def relay():
    relay = Relay(heartbeat_seconds=SILENCE)
    relay.start()
    return relay


@pytest.fixture
def road():
    with ExitStack() as resources:
        yield Road(resources)
