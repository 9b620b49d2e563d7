"""A key for administration, or a user who manages others, never gets more than they have."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Role, User
from accounts.services import delete_user, update_user
from keys.models import ApiKey
from keys.services import delete_keys, issue_key, update_key
from tests.support.management import PASSWORD, new_admin, new_user, refused
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


@pytest.fixture
def key_client(nobody):
    """Makes clients with a key of an admin: key_client("users.manage")."""

    def client(*features, owner=None, **options):
        owner = owner or new_admin()
        return nobody.with_credential(issue_key(owner=owner, name="key", permissions=features, **options).text)

    return client


@pytest.fixture
def manager(key_client):
    return key_client("users.manage")


def role_of(user):
    return [{"id": role.pk} for role in user.roles.all()]


def role(name):
    return [{"id": Role.objects.get(name=name).pk}]


class TestWhatTheyMay:
    def test_a_key_creates_changes_and_deletes_users_without_a_password(self, manager):
        response = manager.post("/users/", userName="new", password=PASSWORD)
        assert response.status_code == 201, response.text
        user = User.objects.get(username="new")
        assert manager.patch(f"/users/{user.pk}/", displayName="New", active=False).status_code == 200
        assert manager.patch(f"/users/{user.pk}/", newPassword="another pass phrase").status_code == 200
        assert manager.delete(f"/users/{user.pk}/").status_code == 200
        assert [row["userName"] for row in manager.rows("/users/?userNameContains=new")] == ["new"]

    def test_a_key_manages_providers_and_their_models(self, key_client, admin):
        client = key_client("providers.modify")
        format_id = admin.rows("/formats/?name=openai")[0]["id"]
        values = {"name": "p", "url": "https://api.example.org/v1", "authMethod": "bearer", "apiKey": "sk-12345678"}
        assert client.post("/providers/", formatId=format_id, models=["m"], **values).status_code == 201
        (row,) = [row for row in client.rows("/providers/") if row["name"] == "p"]
        assert client.patch(f"/providers/{row['id']}/", priority=5).status_code == 200
        assert client.delete(f"/providers/{row['id']}/").status_code == 200

    def test_a_key_without_the_feature_does_none_of_it(self, key_client):
        client = key_client("rules.view", "work")
        for path in ("/users/", "/providers/", "/licence/"):
            refused(client.post(path), 403, "PermissionDenied")
        refused(client.get("/users/"), 403, "PermissionDenied")


@promise("A key for administration makes nothing that is wider", target="403", suite="attack")
class TestNoWiderThanItself:
    def test_it_issues_changes_and_rotates_no_key(self, key_client):
        owner = new_admin()
        client = key_client("users.manage", "providers.modify", "keys.view_all", owner=owner)
        key = ApiKey.objects.get(owner=owner)
        refused(client.post("/keys/", name="wider", permissions=[{"name": "rules.modify"}]), 403, "PermissionDenied")
        refused(client.patch("/keys/", id=key.pk, permissions=[{"name": "rules.modify"}]), 403, "PermissionDenied")
        refused(client.patch("/keys/", id=key.pk, networks=[], expiry=None), 403, "PermissionDenied")
        refused(client.send("POST", f"/keys/{key.pk}/rotate"), 403, "PermissionDenied")
        assert ApiKey.objects.filter(owner=owner).count() == 1

    def test_it_makes_no_role_and_no_feature(self, key_client):
        client = key_client("users.manage")
        refused(client.post("/roles/", name="mine"), 403, "PermissionDenied")
        refused(client.patch(f"/roles/{Role.objects.get(name='user').pk}/", features=[]), 403, "PermissionDenied")
        refused(client.post("/features/", name="mine"), 403, "PermissionDenied")

    def test_it_makes_no_admin(self, manager):
        refused(manager.post("/users/", userName="a", password=PASSWORD, roles=role("admin")), 403, "PermissionDenied")
        assert not User.objects.filter(username="a").exists()
        user = new_user()
        refused(manager.patch(f"/users/{user.pk}/", roles=role("admin")), 403, "PermissionDenied", "admin")
        assert not User.objects.get(pk=user.pk).is_admin

    def test_it_gives_no_role_that_grants_what_it_lacks(self, manager, key_client):
        wide = role_of(new_user("rules.modify"))
        user = new_user()
        refused(manager.patch(f"/users/{user.pk}/", roles=wide), 403, "PermissionDenied", "rules.modify")
        refused(manager.post("/users/", userName="a", password=PASSWORD, roles=wide), 403, "PermissionDenied")
        equal = key_client("users.manage", "rules.modify")
        assert equal.patch(f"/users/{user.pk}/", roles=wide).status_code == 200

    @pytest.mark.parametrize(
        "change",
        [{"newPassword": "another pass phrase"}, {"active": False}, {"roles": []}, {"email": "a@example.org"}],
    )
    def test_it_changes_no_admin_nor_its_owner(self, key_client, change):
        owner = new_admin()
        client = key_client("users.manage", owner=owner)
        for admin in (owner, new_admin(), new_admin(is_active=False), new_admin(is_deleted=True)):
            before = User.objects.values().get(pk=admin.pk)
            refused(client.patch(f"/users/{admin.pk}/", **change), 403, "PermissionDenied", "admin")
            for body in (
                {"data": {"id": str(admin.pk), "attributes": change}},
                {"data": {"attributes": change | {"id": admin.pk}}},
            ):
                refused(client.send("PATCH", "/users/", json=body), 403, "PermissionDenied", "admin")
            refused(client.delete(f"/users/{admin.pk}/"), 403, "PermissionDenied", "admin")
            assert User.objects.values().get(pk=admin.pk) == before
        refused(client.send("PATCH", "/users/", json={"data": {"attributes": change}}), 403, "PermissionDenied")

    def test_it_sets_no_password_of_somebody_who_may_do_more(self, manager):
        other = new_user("logs.view_all")
        before = User.objects.get(pk=other.pk).password
        response = manager.patch(f"/users/{other.pk}/", newPassword="another pass phrase")
        refused(response, 403, "PermissionDenied", "logs.view_all")
        assert User.objects.get(pk=other.pk).password == before

    def test_it_does_not_raise_an_owner_who_is_no_admin(self, key_client):
        owner = new_user("users.manage", "work", "models.create")
        client = key_client("users.manage", owner=owner)
        for roles in (role("admin"), role_of(new_user("rules.modify"))):
            refused(client.patch(f"/users/{owner.pk}/", roles=roles), 403, "PermissionDenied")
        refused(
            client.patch(f"/users/{owner.pk}/", newPassword="another pass phrase"), 403, "PermissionDenied", "owner"
        )
        refused(
            client.patch("/users/", newPassword="another pass phrase", currentPassword=PASSWORD),
            403,
            "PermissionDenied",
        )
        refused(client.delete(f"/users/{owner.pk}/"), 403, "PermissionDenied", "owner")

    def test_it_cannot_guess_the_password_of_its_owner(self, key_client):
        owner = new_user("users.manage")
        client = key_client("users.manage", owner=owner)
        for password in (PASSWORD, "wrong"):
            response = client.patch("/users/", newPassword="another pass phrase", currentPassword=password)
            refused(response, 403, "PermissionDenied", "owner")
        assert User.objects.get(pk=owner.pk).check_password(PASSWORD)

    def test_it_makes_nobody_who_manages_users(self, manager):
        managers, user = role_of(new_user("users.manage")), new_user()
        refused(manager.patch(f"/users/{user.pk}/", roles=managers), 403, "PermissionDenied", "users.manage")
        refused(manager.post("/users/", userName="a", password=PASSWORD, roles=managers), 403, "PermissionDenied")
        assert not User.objects.filter(username="a").exists()

    def test_it_changes_nobody_who_manages_users(self, manager):
        other = new_user("users.manage")
        for change in ({"newPassword": "another pass phrase"}, {"active": False}, {"roles": []}):
            refused(manager.patch(f"/users/{other.pk}/", **change), 403, "PermissionDenied", "users.manage")
        refused(manager.delete(f"/users/{other.pk}/"), 403, "PermissionDenied", "users.manage")
        assert User.objects.get(pk=other.pk).is_usable

    def test_a_login_with_the_feature_is_judged_in_the_same_way(self, nobody):
        client = nobody.as_user(new_user("users.manage"))
        admin = new_admin()
        refused(
            client.patch(f"/users/{admin.pk}/", newPassword="another pass phrase"), 403, "PermissionDenied", "admin"
        )
        refused(client.post("/users/", userName="a", password=PASSWORD, roles=role("admin")), 403, "PermissionDenied")
        assert client.post("/users/", userName="a", password=PASSWORD).status_code == 201

    def test_a_login_with_the_feature_does_not_change_its_own_roles(self, nobody):
        user = new_user("users.manage")
        client = nobody.as_user(user)
        for roles in (role("user"), role("admin"), []):
            refused(client.patch("/users/", roles=roles), 403, "PermissionDenied", "roles")
        [shown] = client.rows("/users/?currentUser=true")
        assert client.patch("/users/", **shown | {"displayName": "Me"}).status_code == 200
        assert [one.name for one in user.roles.all()] == [one["name"] for one in shown["roles"]]

    def test_a_user_without_it_still_changes_only_their_own(self, as_ann, ann):
        assert as_ann.patch("/users/", displayName="Ann").status_code == 200
        refused(as_ann.patch("/users/", roles=role("admin")), 403, "PermissionDenied", "admin")
        refused(as_ann.patch("/users/", roles=role_of(new_user("rules.view"))), 403, "PermissionDenied")
        refused(as_ann.patch(f"/users/{new_user().pk}/", displayName="x"), 403, "PermissionDenied")


@promise(
    "A key for administration never has more than its owner", target="403 from the next request on", suite="attack"
)
def test_what_the_owner_loses_the_key_loses(key_client):
    owner = new_user("users.manage", "groups.view")
    client = key_client("users.manage", "groups.view", owner=owner)
    assert client.get("/users/").status_code == 200
    owner.roles.first().features.remove(*owner.roles.first().features.filter(name="users.manage"))
    refused(client.get("/users/"), 403, "PermissionDenied")
    assert client.get("/groups/").status_code == 200


@promise("A key for administration ceases at once", target="401, and 403 in a wrong network", suite="attack")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda key: update_key(key, locked=True), 401),
        (lambda key: update_key(key, expire=True), 401),
        (lambda key: update_key(key, not_before=timezone.now() + timedelta(days=1)), 401),
        (lambda key: delete_keys([key]), 401),
        (lambda key: update_user(key.owner, is_active=False), 401),
        (lambda key: delete_user(key.owner), 401),
        (lambda key: update_key(key, networks=["192.0.2.0/24"]), 403),
        (lambda key: update_key(key, permissions=["work"]), 403),
        (lambda key: update_user(key.owner, role_ids=[]), 403),
    ],
)
def test_a_key_ceases_at_once(key_client, admin, change, code):
    owner = new_admin()  # not the last one
    client = key_client("users.manage", owner=owner)
    assert client.get("/users/").status_code == 200
    change(ApiKey.objects.get(owner=owner))
    assert client.get("/users/").status_code == code
    assert client.post("/users/", userName="late", password=PASSWORD).status_code == code
    assert not User.objects.filter(username="late").exists()
