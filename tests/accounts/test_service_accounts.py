"""Service accounts: users without login whom a group owns."""

import pytest
from django.db import IntegrityError, transaction

from accounts.models import Group, Role, Session, User
from accounts.services import create_group, create_service_account, delete_user
from keys.models import ApiKey
from keys.services import issue_key
from telemetry.models import LogEntry
from tests.support.logins import by_password
from tests.support.management import PASSWORD, new_admin, new_user, refused, token_of
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


@pytest.fixture
def account(group):
    return create_service_account(username="indexer", group_id=group.pk)


def key_of(owner, *features, **options):
    return issue_key(owner=owner, name="key", permissions=features or ["work"], **options).text


def role_with(*features):
    return [role.pk for role in new_user(*features).roles.all()]


class TestCreating:
    def test_it_has_a_group_as_one_of_its_members(self, admin, group):
        response = admin.post("/users/", userName="indexer", kind="service", groupId=group.pk, displayName="Indexer")
        assert response.status_code == 201, response.text
        account = User.objects.get(username="indexer")
        assert response.headers["UserId"] == str(account.pk)
        [row] = admin.rows("/users/?kind=service")
        assert row == {
            "id": account.pk,
            "userName": "indexer",
            "displayName": "Indexer",
            "email": "",
            "active": True,
            "isDeleted": False,
            "kind": "service",
            "groupId": group.pk,
            "roles": [{"id": Role.objects.get(name="user").pk, "name": "user"}],
            "groups": [{"id": group.pk, "name": "search"}],
            "secondFactor": False,
        }
        assert [row["userName"] for row in admin.rows(f"/users/?groupId={group.pk}")] == ["indexer"]
        assert "indexer" not in [row["userName"] for row in admin.rows("/users/?kind=person")]

    @pytest.mark.parametrize(
        ("attributes", "field"),
        [
            ({"kind": "service"}, "groupId"),
            ({"kind": "service", "groupId": None}, "groupId"),
            ({"kind": "service", "groupId": 987654}, "groupId"),
            ({"kind": "service", "password": PASSWORD}, "password"),
            ({"kind": "robot", "password": PASSWORD}, "kind"),
            ({"kind": "person"}, "password"),
            ({"kind": "person", "password": PASSWORD, "groupId": 1}, "groupId"),
            ({"password": PASSWORD, "groupId": 1}, "groupId"),
        ],
    )
    def test_a_wrong_combination_is_refused(self, admin, group, attributes, field):
        refused(admin.post("/users/", userName="x", **attributes), 400, "ValidationError", field)
        assert not User.objects.filter(username="x").exists()

    def test_its_name_is_free(self, admin, group, account):
        refused(admin.post("/users/", userName="INDEXER", kind="service", groupId=group.pk), 409, "Conflict", "INDEXER")

    def test_the_database_refuses_one_without_a_group_and_a_person_with_one(self, account, group):
        for row, values in (
            (account, {"owning_group": None}),
            (new_user(), {"kind": "service"}),
            (new_user(), {"owning_group": group}),
        ):
            with pytest.raises(IntegrityError), transaction.atomic():
                User.objects.filter(pk=row.pk).update(**values)


@promise("A service account never logs in", target="401 by password, token and console", suite="attack")
class TestNoLogin:
    @pytest.fixture
    def armed(self, account):
        """One into whose row somebody has written a password and the role admin."""
        account.set_password(PASSWORD)
        account.save()
        account.roles.add(Role.objects.get(name="admin"))
        return account

    def test_not_by_a_password(self, nobody, armed):
        unknown = by_password(nobody, username="nobody")
        answer = by_password(nobody, username="indexer")
        assert answer.status_code == 401
        assert answer.content == unknown.content
        assert not Session.objects.exists()
        assert LogEntry.objects.filter(message__contains="the service account indexer").count() == 1

    def test_not_by_a_token(self, nobody, armed):
        client = nobody.with_credential(token_of(armed))
        for path in ("/users/?currentUser=true", "/features/", "/users/"):
            refused(client.get(path), 401, "AuthenticationFailed")
        refused(client.post("/keys/", name="k"), 401, "AuthenticationFailed")

    def test_not_in_the_console(self, client, armed):
        answer = client.post("/admin/login/", {"username": "indexer", "password": PASSWORD})
        assert answer.status_code == 200
        assert client.get("/admin/").status_code == 302
        assert not Session.objects.exists()

    def test_it_gets_no_password(self, admin, nobody, account):
        before = User.objects.get(pk=account.pk).password
        response = admin.patch(f"/users/{account.pk}/", newPassword="another pass phrase")
        refused(response, 400, "ValidationError", "newPassword", "never logs in")
        assert User.objects.get(pk=account.pk).password == before
        assert not User.objects.get(pk=account.pk).has_usable_password()

    def test_nobody_becomes_one_and_it_becomes_nobody_else(self, admin, account, group):
        refused(admin.patch(f"/users/{account.pk}/", kind="person"), 400, "ValidationError", "kind")
        person = new_user()
        refused(admin.patch(f"/users/{person.pk}/", kind="service"), 400, "ValidationError", "kind")
        refused(admin.patch(f"/users/{person.pk}/", groupId=group.pk), 400, "ValidationError", "groupId")

    def test_it_is_no_admin(self, admin, account, group):
        admins = [{"id": Role.objects.get(name="admin").pk}]
        refused(admin.patch(f"/users/{account.pk}/", roles=admins), 400, "ValidationError", "roles")
        response = admin.post("/users/", userName="x", kind="service", groupId=group.pk, roles=admins)
        refused(response, 400, "ValidationError", "roles")
        assert not User.objects.filter(username="x").exists()


class TestChanging:
    def test_its_row_can_be_sent_back(self, admin, account):
        for user in (account, new_user()):
            [row] = admin.rows(f"/users/?id={user.pk}")
            assert admin.patch(f"/users/{user.pk}/", **row | {"displayName": "Changed"}).status_code == 200
            assert admin.rows(f"/users/?id={user.pk}") == [row | {"displayName": "Changed"}]

    def test_it_moves_to_another_group(self, admin, account, group):
        other = create_group(name="other")
        assert admin.patch(f"/users/{account.pk}/", groupId=other.pk).status_code == 200
        [row] = admin.rows(f"/users/?id={account.pk}")
        assert (row["groupId"], row["groups"]) == (other.pk, [{"id": other.pk, "name": "other"}])
        refused(admin.patch(f"/users/{account.pk}/", groupId=None), 400, "ValidationError", "groupId")
        refused(admin.patch(f"/users/{account.pk}/", groupId=987654), 400, "ValidationError", "groupId")

    def test_it_stays_a_member_of_its_group(self, admin, account, group):
        path = f"/groups/{group.pk}/members/"
        refused(admin.delete(f"{path}{account.pk}/"), 409, "Conflict", "indexer")
        ann = new_user()
        assert admin.patch(f"/groups/{group.pk}/", members=[{"id": ann.pk}]).status_code == 200
        assert {row.pk for row in group.members.all()} == {ann.pk, account.pk}
        delete_user(account)
        assert admin.delete(f"{path}{account.pk}/").status_code == 200

    def test_its_group_stays_while_it_lives(self, admin, account, group):
        refused(admin.delete(f"/groups/{group.pk}/"), 409, "Conflict", "indexer")
        assert Group.objects.filter(pk=group.pk).exists()
        delete_user(account)
        assert admin.delete(f"/groups/{group.pk}/").status_code == 200
        assert admin.rows(f"/users/?id={account.pk}")[0]["groupId"] is None


class TestKeys:
    def test_a_key_survives_the_person_who_made_it(self, nobody, account):
        creator, _ = new_admin(), new_admin()
        response = nobody.as_user(creator).post("/keys/", name="k", user=account.pk, permissions=[{"name": "work"}])
        assert response.status_code == 201, response.text
        key = ApiKey.objects.get()
        delete_user(creator)
        assert (key.owner, key.created_by) == (account, creator)
        assert ApiKey.objects.usable().get() == key

    def test_a_key_for_administration_may_what_its_account_may(self, nobody, group):
        account = create_service_account(username="a", group_id=group.pk, role_ids=role_with("users.manage"))
        client = nobody.with_credential(key_of(account, "users.manage"))
        assert client.post("/users/", userName="new", password=PASSWORD).status_code == 201
        [me] = client.rows("/users/?currentUser=true")
        assert me["kind"] == "service"
        refused(client.patch("/users/", displayName="x"), 403, "PermissionDenied", "owner")
        refused(client.post("/keys/", name="more"), 403, "PermissionDenied")

    def test_its_keys_end_with_it(self, admin, nobody, account, group):
        account.roles.set(role_with("groups.view"))
        client = nobody.with_credential(key_of(account, "groups.view"))
        assert client.get("/groups/").status_code == 200
        assert admin.patch(f"/users/{account.pk}/", active=False).status_code == 200
        refused(client.get("/groups/"), 401, "AuthenticationFailed")


@promise("Nobody gets a group's rules by a service account", target="403, nothing changed", suite="attack")
class TestEscalation:
    def manager(self, nobody, *features):
        return nobody.with_credential(key_of(new_admin(), *features))

    def test_its_group_is_chosen_by_whoever_may_add_members(self, nobody, group, account):
        manager, other = self.manager(nobody, "users.manage"), create_group(name="other")
        values = {"userName": "x", "kind": "service", "groupId": group.pk}
        refused(manager.post("/users/", **values), 403, "PermissionDenied", "groupId", "groups.modify")
        refused(manager.patch(f"/users/{account.pk}/", groupId=other.pk), 403, "PermissionDenied", "groupId")
        assert User.objects.get(pk=account.pk).owning_group == group
        assert not User.objects.filter(username="x").exists()
        both = self.manager(nobody, "users.manage", "groups.modify")
        assert both.post("/users/", **values).status_code == 201
        assert both.patch(f"/users/{account.pk}/", groupId=other.pk).status_code == 200

    def test_it_gets_no_role_that_its_maker_lacks(self, nobody, group, account):
        manager = self.manager(nobody, "users.manage", "groups.modify")
        for feature in ("rules.modify", "users.manage"):
            roles = [{"id": role} for role in role_with(feature)]
            response = manager.post("/users/", userName="x", kind="service", groupId=group.pk, roles=roles)
            refused(response, 403, "PermissionDenied", feature)
            refused(manager.patch(f"/users/{account.pk}/", roles=roles), 403, "PermissionDenied", feature)
        assert not User.objects.filter(username="x").exists()

    def test_whoever_only_manages_users_issues_no_keys_for_it(self, nobody, account):
        client = nobody.as_user(new_user("users.manage", "groups.modify", "keys.view_all"))
        refused(client.post("/keys/", name="k", user=account.pk), 403, "PermissionDenied")
        assert not ApiKey.objects.exists()


class TestConsole:
    path = "/admin/accounts/user/"

    def added(self, console, **fields):
        values = {"username": "indexer", "kind": "service", "password": "", "is_active": "on"}
        return console.post(f"{self.path}add/", values | fields)

    @pytest.mark.long
    def test_it_is_made_and_moved(self, console, group):
        assert self.added(console, owning_group=group.pk).status_code == 302
        account = User.objects.get(username="indexer")
        assert (account.is_service, account.owning_group) == (True, group)
        page = console.get(f"{self.path}{account.pk}/change/").text
        assert 'name="owning_group"' in page
        for name in ("password", "kind", "present_password"):
            assert f'name="{name}"' not in page
        assert 'name="owning_group"' not in console.get(f"{self.path}{new_user().pk}/change/").text

    @pytest.mark.long
    def test_it_keeps_a_group(self, console, account):
        page = f"{self.path}{account.pk}/change/"
        response = console.get(page)
        digest = response.context["adminform"].form.first_digest
        values = {"_seen": digest, "is_active": "on", "owning_group": "", "roles": [r.pk for r in account.roles.all()]}
        errors = console.post(page, values).context["adminform"].form.errors
        assert list(errors) == ["owning_group"]

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({}, "owning_group"),
            ({"password": PASSWORD}, "password"),
            ({"kind": "person"}, "password"),
            ({"kind": "person", "password": PASSWORD, "grouped": True}, "owning_group"),
        ],
    )
    def test_a_wrong_combination_is_refused_beside_its_field(self, console, group, fields, field):
        if fields.pop("grouped", False):
            fields["owning_group"] = group.pk
        answer = self.added(console, **fields)
        assert field in answer.context["adminform"].form.errors
        assert not User.objects.filter(username="indexer").exists()

    def test_its_group_is_not_deleted(self, console, account, group):
        console.post(f"/admin/accounts/group/{group.pk}/delete/", {"post": "yes"})
        assert Group.objects.filter(pk=group.pk).exists()
