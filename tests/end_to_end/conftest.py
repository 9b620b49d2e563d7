"""What most tests of work requests begin with."""

import pytest

from tests.support.provider import ScriptedProvider
from tests.support.world import World


@pytest.fixture
def provider(world: World) -> ScriptedProvider:
    """A provider of the world's model, which a rule allows the world's user to ask."""
    world.allow()
    return world.provider()


@pytest.fixture
def pair(world: World) -> tuple[ScriptedProvider, ScriptedProvider]:
    """Two providers of the world's model, the first preferred, and a rule for both."""
    world.allow()
    return world.provider(priority=1), world.provider(priority=2)


@pytest.fixture
def trio(world: World) -> tuple[ScriptedProvider, ScriptedProvider, ScriptedProvider]:
    """Three providers with one model each, a rule for all, and no alias yet."""
    world.allow()
    return tuple(world.provider(f"{world.model}-{letter}") for letter in "abc")
