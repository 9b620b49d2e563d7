"""What migrations make of rows that were written before them."""

import pytest
from django.core.management import call_command
from django.db import connection

from accounts.models import Group, Role, User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def before():
    """The database before names had keys; afterwards it is as it was again."""
    migrate("accounts", "0002")
    yield
    migrate()


def migrate(*target):
    call_command("migrate", *target, verbosity=0, skip_checks=True)


def insert(table, **values):
    columns, places = ", ".join(values), ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({places}) RETURNING id", list(values.values()))
        return cursor.fetchone()[0]


def user(name):
    values = {"username": name, "password": "", "display_name": "", "email": "", "created_at": "2026-01-01 00:00:00+00"}
    return insert("accounts_user", **values, is_active=True, is_deleted=False)


def test_users_get_keys_and_of_two_of_one_name_the_older_has_it(before):
    older, newer, other = user("Straße"), user("strasse"), user("Ann")
    migrate()
    results = dict(User.objects.values_list("id", "name_key"))
    assert results == {older: "strasse", newer: f"strasse\x1f{newer}", other: "ann"}
    logins = [User.objects.with_username(name).first().pk for name in ("Straße", "strasse", "STRASSE")]
    assert logins == [older, newer, older]


def test_names_are_brought_into_one_form_and_one_that_is_taken_gets_its_id(before):
    apart, composed, alone = (insert("accounts_group", name=name) for name in ("cafe\u0301", "café", "E\u0301"))
    migrate()
    assert dict(Group.objects.values_list("id", "name")) == {apart: f"café ({apart})", composed: "café", alone: "É"}


def test_roles_whose_names_differ_in_case_only_are_told_apart(before):
    names = ["Auditor", "auditor", "AUDITOR", "Admin"]
    ids = [Role.objects.create(name=name).pk for name in names]
    same_name = Role.objects.create(name=f"auditor-{ids[1]}")
    migrate()
    roles = dict(Role.objects.values_list("pk", "name"))
    assert [roles[pk] for pk in ids] == ["Auditor", f"auditor--{ids[1]}", f"AUDITOR-{ids[2]}", f"Admin-{ids[3]}"]
    assert (roles[same_name.pk], Role.objects.filter(name="admin").count()) == (same_name.name, 1)
