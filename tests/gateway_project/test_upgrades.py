"""What migrations make of rows that were written before them."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from accounts.authentication import caller_of
from accounts.models import Feature, Group, Role, User
from accounts.sessions import log_in
from accounts.tokens import issue_access
from gateway_project.work.snapshot.loading import load_all
from gateway_project.work.snapshot.records import Snapshot
from keys import secrets
from keys.models import ApiKey
from tests.support.management import PASSWORD

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long, pytest.mark.either_store]


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


@pytest.fixture
def before_restrictions():
    """The database before keys could be narrowed and groups had admins; afterwards it is as it was again."""
    for app in ("keys", "accounts"):
        migrate(app, "0004")
    yield
    migrate()


PERMISSIONS = ["work", "logs.view_all"]
EXPIRY = timezone.now().replace(microsecond=0) + timedelta(days=30)


def insert_key(current: secrets.NewKey, former: secrets.NewKey) -> tuple[int, int]:
    """A rotated key of a member of a group, with permissions that a role grants; the ids of key and group."""
    owner = user("ann", name_key="ann")
    role, group = insert("accounts_role", name="older"), insert("accounts_group", name="search")
    for feature in Feature.objects.filter(name__in=PERMISSIONS).values_list("pk", flat=True):
        insert("accounts_role_features", role_id=role, feature_id=feature)
    insert("accounts_user_roles", user_id=owner, role_id=role)
    insert("accounts_group_members", user_id=owner, group_id=group)
    values = {"name": "nightly", "owner_id": owner, "public_id": current.public_id, "digest": current.digest}
    values |= {"former_public_id": former.public_id, "former_digest": former.digest, "former_until": EXPIRY}
    values |= {"expiry": EXPIRY, "permissions": json.dumps(PERMISSIONS), "is_deleted": False}
    return insert("keys_apikey", created_at="2026-01-01 00:00:00+00", **values), group


@pytest.mark.either_store
def test_keys_go_on_as_they_were_and_nobody_administers_a_group(before_restrictions, client):
    texts = secrets.generate_key(), secrets.generate_key()
    key_id, group_id = insert_key(*texts)
    migrate()
    key, group = ApiKey.objects.get(pk=key_id), Group.objects.get(pk=group_id)
    assert (key.expiry, key.permissions, key.created_by, key.locked_time) == (EXPIRY, PERMISSIONS, None, None)
    assert (key.owner.kind, key.owner.owning_group, key.owner.is_active) == ("person", None, True)
    assert (group.members.get(), group.parent, group.has_admin(key.owner)) == (key.owner, None, False)
    snapshot = Snapshot()
    load_all(snapshot)
    for text in texts:
        loaded = snapshot.keys[text.public_id]
        assert (loaded.digest, loaded.expires, loaded.restrictions) == (text.digest, EXPIRY.timestamp(), None)
        assert loaded.permissions == frozenset(PERMISSIONS)
        for path, status in (("/logs/", 200), ("/users/", 403)):
            assert client.get(path, HTTP_AUTHORIZATION=f"Bearer {text.text}").status_code == status
    ApiKey.objects.filter(pk=key_id).update(former_until=timezone.now())
    assert [client.get("/logs/", HTTP_AUTHORIZATION=f"Bearer {text.text}").status_code for text in texts] == [200, 401]


def insert(table, **values):
    columns, places = ", ".join(values), ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({places}) RETURNING id", list(values.values()))
        return cursor.fetchone()[0]


def user(name, **more):
    values = {"username": name, "password": "", "display_name": "", "email": "", "created_at": "2026-01-01 00:00:00+00"}
    return insert("accounts_user", **values, **more, is_active=True, is_deleted=False)


@pytest.mark.slow
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


@pytest.mark.slow
def test_roles_whose_names_differ_in_case_only_are_told_apart(before):
    names = ["Auditor", "auditor", "AUDITOR", "Admin"]
    ids = [insert("accounts_role", name=name) for name in names]
    same_name = insert("accounts_role", name=f"auditor-{ids[1]}")
    migrate()
    roles = dict(Role.objects.values_list("pk", "name"))
    assert [roles[pk] for pk in ids] == ["Auditor", f"auditor--{ids[1]}", f"AUDITOR-{ids[2]}", f"Admin-{ids[3]}"]
    assert (roles[same_name], Role.objects.filter(name="admin").count()) == (f"auditor-{ids[1]}", 1)
