"""What most tests of work requests begin with."""

import pytest

from tests.provider import ScriptedProvider
from tests.world import World


@pytest.fixture
def provider(world: World) -> ScriptedProvider:
    """A provider of the world's model, which a rule allows the world's user to ask."""
    world.allow()
    return world.provider()
