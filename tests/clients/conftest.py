"""What tests of real clients begin with."""

import pytest

from tests.clients.recorded import AUTH


@pytest.fixture
def speaking(world):
    """Makes a provider of the world's model that speaks a format: speaking("openai")."""

    def make(format_name, **options):
        world.allow()
        return world.provider(format_name=format_name, auth_method=AUTH.get(format_name, "bearer"), **options)

    return make
