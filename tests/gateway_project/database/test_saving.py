"""What the database refuses is told as what it is."""

import pytest
from django.apps import apps
from django.db import models

from accounts.models import Feature, Group, User
from gateway_project.database.saving import UNIQUENESS_CODES, row_in_the_way
from keys.models import ApiKey
from licensing.models import Limit
from providers.models import Model, Provider
from rules.aliases.models import Alias
from rules.models import Rule
from tests.support.management import new_user
from tests.support.many_rows import fill

ROOMS = ("accounts", "keys", "licensing", "providers", "rules", "telemetry")


@pytest.mark.parametrize("room", ROOMS)
def test_what_there_is_already_is_taken_and_no_constraint_that_is_violated(room):
    rows = apps.get_app_config(room).get_models()
    unique = [it for row in rows for it in row._meta.constraints if isinstance(it, models.UniqueConstraint)]
    for constraint in unique:
        if constraint.condition is not None or constraint.expressions:  # of plain ones Django says so by itself
            assert constraint.violation_error_code in UNIQUENESS_CODES, constraint.name


@pytest.mark.long
@pytest.mark.django_db
def test_the_row_in_the_way_of_a_copy_is_the_original():
    fill(new_user(), 0, 2)
    tried = set()
    for room in ROOMS:
        for table in apps.get_app_config(room).get_models():
            copy = table._base_manager.order_by("pk").first()
            if copy is None or not has_unique_constraint(copy):
                continue
            original, copy.pk = copy.pk, None
            assert row_in_the_way(copy).pk == original, table
            tried.add(table)
    assert tried >= {ApiKey, Alias, Feature, Group, Limit, Model, Provider, Rule, User}


def has_unique_constraint(row):
    """Whether a unique constraint applies to the row."""
    table = type(row)._base_manager.filter(pk=row.pk)
    unique = [it for it in row._meta.constraints if isinstance(it, models.UniqueConstraint)]
    return any(
        table.filter(it.condition or models.Q(), **{f"{name}__isnull": False for name in it.fields}).exists()
        for it in unique
    )


@pytest.mark.long
@pytest.mark.django_db
def test_a_row_is_not_in_its_own_way_nor_in_that_of_another_name():
    user = new_user(username="ann")
    assert row_in_the_way(user) is None
    assert row_in_the_way(User(username="ben", name_key="ben")) is None
    assert row_in_the_way(Feature(name=Feature.objects.create(name="Beta").name.upper())).name == "Beta"
