"""Guardrails for the user of a running gateway."""

import pytest

from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.guardrail_path import MAIL


@pytest.fixture
def guard(world, request):
    """Makes guardrails for the world's user."""

    def make(**options):
        options = {"applies_to": {"users": [world.user.pk]}, **MAIL} | options
        row = create_guardrail(name=options.pop("name", world.name("guardrail")), **options)
        request.addfinalizer(lambda: delete_guardrail(row) if row.pk else None)
        world._settled = False
        return row

    world.allow()
    return make
