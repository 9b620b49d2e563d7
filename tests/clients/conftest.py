"""What tests of real clients begin with."""

import pytest

from tests.support.clients.openai_calls import sdk
from tests.support.clients.recorded import AUTH


@pytest.fixture
def speaking(world):
    """Makes a provider of the world's model, or of these, that speaks a format: speaking("openai")."""

    def make(format_name, *models, **options):
        world.allow()
        return world.provider(*models, format_name=format_name, auth_method=AUTH.get(format_name, "bearer"), **options)

    return make


@pytest.fixture
def client(world):
    """OpenAI's SDK with the gateway's address and a key of the gateway's; it does not try again by itself."""
    with sdk(world, max_retries=0) as client:
        yield client
