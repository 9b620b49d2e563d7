"""What several tests of providers need."""

import pytest

from providers.transport.transport import Transport


@pytest.fixture
def transport():
    made = Transport(networks="any", heartbeat_seconds=1)
    yield made
    made.close_idle(-1)
