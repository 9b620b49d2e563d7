"""What the database refuses is told as what it is."""

import pytest
from django.apps import apps
from django.db import models
from django.utils.functional import SimpleLazyObject

from accounts.models import Feature, Group, User
from gateway_project.database.saving import UNIQUENESS_CODES, collision_of, save_or_refuse
from gateway_project.errors import Conflict, ValidationError
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
            assert collision_of(copy).row.pk == original, table
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


@pytest.mark.django_db
def test_a_conflict_names_the_field_that_has_to_change():
    fill(new_user(), 0, 2)
    expected = {
        User: "username",
        Feature: "name",
        Group: "name",
        ApiKey: "name",
        Model: "name",
        Rule: "name",
        Limit: "",
    }
    for table, field in expected.items():
        copy = table._base_manager.order_by("pk").first()
        if table is ApiKey:
            copy.public_id, copy.former_public_id = "another", None
        copy.pk, copy._state.adding = None, True
        with pytest.raises(Conflict) as refused:
            save_or_refuse(copy, conflict="taken")
        assert refused.value.field == field, table


@pytest.mark.long
@pytest.mark.django_db
def test_a_row_is_not_in_its_own_way_nor_in_that_of_another_name():
    user = new_user(username="ann")
    assert collision_of(user).row is None
    assert collision_of(User(username="ben", name_key="ben")).row is None
    assert collision_of(Feature(name=Feature.objects.create(name="Beta").name.upper())).row.name == "Beta"


@pytest.mark.django_db
def test_the_user_of_a_request_is_saved_and_refused_as_others_are():
    ann, ben = new_user(username="ann"), new_user(username="ben")
    user = SimpleLazyObject(lambda: ben)  # as Django's middleware sets it
    user.display_name = "Ben"
    save_or_refuse(user, conflict="taken")
    user.username = "ann"
    with pytest.raises(Conflict) as refused:
        save_or_refuse(user, conflict="taken")
    assert refused.value.row == ann


@pytest.mark.django_db
class TestConstraints:
    """The database checks them when it stores a row; it is asked about them only if it refuses the row."""

    def test_a_row_that_keeps_them_takes_one_statement(self, django_assert_num_queries):
        with django_assert_num_queries(3):  # with the savepoint around it
            save_or_refuse(Feature(name="Beta"), conflict="taken")

    @pytest.mark.parametrize(("field", "value"), [("name", "a/b"), ("weight", 0), ("total_timeout_seconds", -1)])
    def test_one_that_is_broken_is_named_with_its_field(self, first_provider, field, value):
        setattr(first_provider, field, value)
        with pytest.raises(ValidationError) as refused:
            save_or_refuse(first_provider, conflict="taken")
        assert {problem.field for problem in refused.value.problems} == {field}
        first_provider.refresh_from_db()
        assert getattr(first_provider, field) != value

    def test_what_only_the_database_checks_is_said_in_words(self):
        group = Group.objects.create(name="both")
        limit = Limit(user=new_user(), group=group, measure="requests", window="day", amount=1)
        with pytest.raises(ValidationError) as refused:
            save_or_refuse(limit, conflict="taken")
        assert refused.value.sentence == "A limit is for one key, user, group or provider."

    def test_all_that_is_wrong_is_said_at_once(self, first_provider):
        copy = Provider(name=first_provider.name, url=first_provider.url, auth_method="unknown", weight=0)
        with pytest.raises(ValidationError) as refused:
            save_or_refuse(copy, conflict="A provider of this name exists already.")
        fields = {problem.field for problem in refused.value.problems}
        assert fields >= {"auth_method", "weight", "name"}, refused.value.problems
        assert "A provider of this name exists already." in refused.value.sentence

    def test_a_taken_name_beside_another_mistake_is_said_once_and_under_its_own_name(self):
        new_user(username="ann")
        with pytest.raises(ValidationError) as refused:
            save_or_refuse(User(username="Ann", email="nowhere", password="x"), conflict="Ann exists.")
        assert {(one.field, one.detail) for one in refused.value.problems} == {
            ("email", "Enter a valid email address."),
            ("username", "Ann exists."),
        }
