"""Service accounts that admins of a group make, lock and delete."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.managing import accounts as managing
from accounts.models import Feature, Role, User
from accounts.services import add_member, create_group, create_service_account, delete_user, update_user
from accounts.trusted_issuers.services import create_trusted_issuer
from keys.services import issue_key
from tests.support.issuers import Issuer
from tests.support.management import refused
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


@pytest.fixture
def elsewhere(db):
    return create_service_account(username="elsewhere", group_id=create_group(name="other").pk)


def make(client, group, name="indexer", **attributes):
    return client.post("/users/", userName=name, kind="service", groupId=group.pk, **attributes)


def test_an_admin_of_a_group_makes_changes_locks_and_deletes_them(as_boss, group):
    below = create_group(name="below", parent_id=group.pk)
    assert make(as_boss, group, displayName="Indexer").status_code == 201
    assert make(as_boss, below, "crawler").status_code == 201
    account = User.objects.get(username="indexer")
    assert [role.name for role in account.roles.all()] == ["user"]
    assert {row["userName"] for row in as_boss.rows("/users/")} == {"indexer", "crawler"}
    path = f"/users/{account.pk}/"
    assert as_boss.get(path).status_code == 200
    assert as_boss.patch(path, active=False, displayName="Old", email="a@example.org").status_code == 200
    account.refresh_from_db()
    assert (account.is_active, account.display_name) == (False, "Old")
    assert as_boss.patch("/users/", id=account.pk, active=True).status_code == 200
    assert as_boss.delete(path).status_code == 200
    account.refresh_from_db()
    assert account.is_deleted


def test_the_name_of_a_deleted_one_is_free_again(as_boss, group):
    for _ in range(3):
        assert make(as_boss, group).status_code == 201
        account = User.objects.get(username="indexer")
        assert as_boss.delete(f"/users/{account.pk}/").status_code == 200
        account.refresh_from_db()
        assert account.username == f"indexer (deleted {account.pk})"
    assert make(as_boss, group, "x" * 150).status_code == 201
    longest = User.objects.get(username="x" * 150)
    create_service_account(username=f"{'x' * 110} (deleted {longest.pk})", group_id=group.pk)
    assert as_boss.delete(f"/users/{longest.pk}/").status_code == 200
    longest.refresh_from_db()
    assert longest.username == f"{'x' * 110} (deleted {longest.pk}.1)"


def test_new_ones_of_a_day_are_bounded_deleted_ones_included(as_boss, group, monkeypatch):
    monkeypatch.setattr(managing, "MAX_NEW_ACCOUNTS", 2)
    for _ in range(2):
        assert make(as_boss, group).status_code == 201
        assert as_boss.delete(f"/users/{User.objects.get(username='indexer').pk}/").status_code == 200
    refused(make(as_boss, group), 409, "Conflict", "in a day")
    User.objects.update(created_at=timezone.now() - timedelta(days=1, seconds=1))
    assert make(as_boss, group).status_code == 201


def test_a_name_that_tokens_of_an_issuer_stand_for_is_for_administrators(as_boss, admin, group):
    keys = {"jwks": Issuer().jwks, "audience": "gateway"}
    account = create_service_account(username="Nightly", group_id=group.pk)
    create_trusted_issuer(name="a", issuer="https://a.example", subjects={"s": "Nightly"}, **keys)
    create_trusted_issuer(name="b", issuer="https://b.example", user_prefix="cluster-", **keys)
    delete_user(account)
    for name in ("nightly", "Cluster-x"):
        refused(make(as_boss, group, name), 409, "Conflict", "trusted issuer")
        assert make(admin, group, name).status_code == 201


@promise(
    "An admin of a group manages no users but its service accounts", target="403 or 404 for all others", suite="attack"
)
def test_they_reach_no_other_user(as_boss, boss, group, elsewhere, ann):
    add_member(group, user_id=ann.pk)
    add_member(group, user_id=elsewhere.pk)
    for user in (ann, elsewhere):
        path = f"/users/{user.pk}/"
        assert as_boss.get(path).status_code == 404
        refused(as_boss.patch(path, active=False), 403, "PermissionDenied")
        refused(as_boss.patch("/users/", id=user.pk, active=False), 403, "PermissionDenied")
        assert as_boss.delete(path).status_code == 404
        assert User.objects.get(pk=user.pk).is_usable
    assert as_boss.rows("/users/") == []
    assert as_boss.patch("/users/", displayName="The boss").status_code == 200
    assert as_boss.delete(f"/users/{boss.pk}/").status_code == 404


def test_they_make_no_people_no_others_and_give_no_roles(as_boss, group, elsewhere):
    person = {"userName": "x", "password": "a long pass phrase"}
    refused(as_boss.post("/users/", **person), 403, "PermissionDenied", "kind")
    refused(make(as_boss, elsewhere.owning_group, "x"), 403, "PermissionDenied", "groupId")
    refused(
        make(as_boss, group, "x", roles=[{"id": Role.objects.get(name="user").pk}]), 403, "PermissionDenied", "roles"
    )
    assert not User.objects.filter(username="x").exists()
    make(as_boss, group)
    path = f"/users/{User.objects.get(username='indexer').pk}/"
    refused(as_boss.patch(path, roles=[]), 403, "PermissionDenied", "roles")
    refused(as_boss.patch(path, groupId=elsewhere.owning_group_id), 403, "PermissionDenied", "groupId")
    refused(as_boss.patch(path, newPassword="a long pass phrase"), 403, "PermissionDenied", "newPassword")


def test_an_account_that_may_do_more_is_not_theirs_to_change(as_boss, group):
    account = create_service_account(username="strong", group_id=group.pk)
    role = Role.objects.create(name="strong")
    role.features.set(Feature.objects.filter(name="logs.view_all"))
    update_user(account, role_ids=[role.pk])
    refused(as_boss.patch(f"/users/{account.pk}/", active=False), 403, "PermissionDenied", "logs.view_all")
    refused(as_boss.delete(f"/users/{account.pk}/"), 403, "PermissionDenied", "logs.view_all")


def test_a_key_and_a_former_admin_make_none(nobody, boss, as_boss, group):
    key = issue_key(owner=boss, name="k", permissions=["work", "models.create"]).text
    group.admins.clear()
    for client in (nobody.with_credential(key), as_boss):
        refused(make(client, group), 403, "PermissionDenied")
        refused(client.get("/users/"), 403, "PermissionDenied")


def test_their_number_is_bounded(as_boss, admin, group, monkeypatch):
    monkeypatch.setattr(managing, "MAX_ACCOUNTS", 1)
    assert make(as_boss, group).status_code == 201
    refused(make(as_boss, group, "another"), 409, "Conflict", "1 service accounts")
    assert make(admin, group, "another").status_code == 201
