"""What the database refuses is told as what it is."""

import pytest
from django.apps import apps
from django.db import models

from gateway_project.database.saving import UNIQUENESS_CODES

ROOMS = ("accounts", "keys", "licensing", "providers", "rules", "telemetry")


@pytest.mark.parametrize("room", ROOMS)
def test_what_there_is_already_is_taken_and_no_constraint_that_is_violated(room):
    rows = apps.get_app_config(room).get_models()
    unique = [it for row in rows for it in row._meta.constraints if isinstance(it, models.UniqueConstraint)]
    for constraint in unique:
        if constraint.condition is not None or constraint.expressions:  # of plain ones Django says so by itself
            assert constraint.violation_error_code in UNIQUENESS_CODES, constraint.name
