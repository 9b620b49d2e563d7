"""What migrations make of rows that were written before them."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from accounts.authentication import caller_of
from accounts.models import Group, Role, User
from accounts.sessions import log_in
from accounts.tokens import issue_access
from tests.support.management import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def before():
    """The database before names had keys; afterwards it is as it was again."""
    migrate("accounts", "0002")
    yield
    migrate()


def migrate(*target):
    call_command("migrate", *target, verbosity=0, skip_checks=True)


@pytest.fixture
def before_second_factors():
    """The database before users could have a second factor; afterwards it is as it was again."""
    migrate("accounts", "0008")
    yield
    migrate()


def test_who_was_logged_in_stays_so_and_passwords_alone_log_in_as_before(before_second_factors):
    name = user("ann", name_key="ann", kind="person", external_id="")
    end = timezone.now() + timedelta(days=1)
    values = {"created_at": end, "last_used_at": end, "expires_at": end, "refresh_digest": "", "device": ""}
    session = uuid4()
    insert("accounts_session", id=session.hex if connection.vendor == "sqlite" else session, user_id=name, **values)
    insert("accounts_role", name="older")
    migrate()
    owner = User.objects.get(pk=name)
    assert caller_of(issue_access(user_id=name, session=session.hex)).user == owner
    owner.set_password(PASSWORD)
    owner.save()
    owner.roles.set([Role.objects.get(name="older")])
    assert not owner.must_have_second_factor
    assert log_in(username="ann", password=PASSWORD)[0] == owner


def insert(table, **values):
    columns, places = ", ".join(values), ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({places}) RETURNING id", list(values.values()))
        return cursor.fetchone()[0]


def user(name, **more):
    values = {"username": name, "password": "", "display_name": "", "email": "", "created_at": "2026-01-01 00:00:00+00"}
    return insert("accounts_user", **values, **more, is_active=True, is_deleted=False)


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
    ids = [insert("accounts_role", name=name) for name in names]
    same_name = insert("accounts_role", name=f"auditor-{ids[1]}")
    migrate()
    roles = dict(Role.objects.values_list("pk", "name"))
    assert [roles[pk] for pk in ids] == ["Auditor", f"auditor--{ids[1]}", f"AUDITOR-{ids[2]}", f"Admin-{ids[3]}"]
    assert (roles[same_name], Role.objects.filter(name="admin").count()) == (f"auditor-{ids[1]}", 1)
