"""Admins of a group: what they manage, and that it is nothing of anybody else."""

import pytest

from accounts.group_tree import depth, with_ancestors, with_descendants
from accounts.models import Group, Role, User
from accounts.services import add_member, create_group, create_service_account, remove_member, update_group
from keys.models import ApiKey
from keys.services import issue_key
from licensing.models import Limit
from licensing.services import set_limit
from tests.support.management import PASSWORD, new_admin, new_user, refused
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


@pytest.fixture
def other(db):
    return create_group(name="other")


@pytest.fixture
def account(group):
    return create_service_account(username="indexer", group_id=group.pk)


def members(client, group):
    response = client.get(f"/groups/{group.pk}/members/")
    assert response.status_code == 200, response.text
    return {row["name"]: row["admin"] for row in response.json()["data"]}


class TestTree:
    PARENTS = {2: 1, 3: 2, 4: 1, 6: 5}

    def test_what_is_above_and_below(self):
        assert with_ancestors([3, 6, 1], self.PARENTS) == (3, 6, 1, 2, 5)
        assert with_descendants([2, 5], self.PARENTS) == {2, 3, 5, 6}
        assert [depth(one, self.PARENTS) for one in (1, 2, 3, 7)] == [3, 2, 1, 1]

    def test_a_circle_ends(self):
        assert with_ancestors([1], {1: 2, 2: 1}) == (1, 2)
        assert with_descendants([1], {1: 2, 2: 1}) == {1, 2}


class TestParents:
    def test_an_admin_puts_a_group_below_another(self, admin, group, other):
        assert admin.patch(f"/groups/{group.pk}/", parentId=other.pk).status_code == 200
        [row] = admin.rows(f"/groups/?id={group.pk}")
        assert row["parentId"] == other.pk
        assert admin.patch(f"/groups/{group.pk}/", **row).status_code == 200
        refused(admin.delete(f"/groups/{other.pk}/"), 409, "Conflict", "search")
        assert admin.patch(f"/groups/{group.pk}/", parentId=None).status_code == 200
        assert admin.rows(f"/groups/?id={group.pk}")[0]["parentId"] is None
        assert admin.post("/groups/", name="team", parentId=group.pk).status_code == 201
        assert Group.objects.get(name="team").parent == group

    def test_a_circle_is_refused(self, admin, group, other):
        update_group(group, parent_id=other.pk)
        for row, parent in ((group, group), (other, group), (other, other)):
            refused(admin.patch(f"/groups/{row.pk}/", parentId=parent.pk), 400, "ValidationError", "parentId")
        refused(admin.patch(f"/groups/{group.pk}/", parentId=987654), 400, "ValidationError", "parentId")

    def test_there_are_ten_levels(self, admin, group):
        above = group
        for number in range(9):
            above = create_group(name=f"level{number}", parent_id=above.pk)
        refused(admin.post("/groups/", name="too deep", parentId=above.pk), 400, "ValidationError", "parentId", "10")
        top = create_group(name="top")
        refused(admin.patch(f"/groups/{group.pk}/", parentId=top.pk), 400, "ValidationError", "parentId", "10")

    @promise("Nobody but an admin gives a group a parent", target="403", suite="attack")
    def test_nobody_else_does(self, nobody, as_boss, boss, group, other):
        add_member(other, user_id=boss.pk, is_admin=True)
        modifier = nobody.as_user(new_user("groups.modify", "groups.create", "groups.view"))
        key = nobody.with_credential(
            issue_key(owner=new_admin(), name="k", permissions=["groups.modify", "groups.create"]).text
        )
        for caller in (modifier, key):
            refused(caller.patch(f"/groups/{group.pk}/", parentId=other.pk), 403, "PermissionDenied", "parentId")
            refused(caller.post("/groups/", name="x", parentId=other.pk), 403, "PermissionDenied", "parentId")
        refused(as_boss.patch(f"/groups/{group.pk}/", parentId=other.pk), 403, "PermissionDenied")
        assert Group.objects.get(pk=group.pk).parent is None


class TestMembers:
    def test_an_admin_makes_admins(self, admin, group):
        ann, path = new_user(username="ann"), f"/groups/{group.pk}/members/"
        assert admin.post(path, id=ann.pk, admin=True).status_code == 201
        assert members(admin, group) == {"ann": True}
        assert admin.post(path, id=ann.pk).status_code == 201
        assert members(admin, group) == {"ann": True}
        assert admin.post(path, id=ann.pk, admin=False).status_code == 201
        assert members(admin, group) == {"ann": False}
        refused(admin.post(path, id=ann.pk, admin="yes"), 400, "ValidationError", "admin")

    def test_who_leaves_comes_back_as_a_member_alone(self, admin, group, boss):
        path = f"/groups/{group.pk}/members/"
        assert admin.delete(f"{path}{boss.pk}/").status_code == 200
        assert admin.post(path, id=boss.pk).status_code == 201
        assert members(admin, group) == {"boss": False}
        add_member(group, user_id=boss.pk, is_admin=True)
        assert admin.patch(f"/groups/{group.pk}/", members=[]).status_code == 200
        assert admin.patch(f"/groups/{group.pk}/", members=[{"id": boss.pk}]).status_code == 200
        assert members(admin, group) == {"boss": False}

    def test_they_add_and_remove_members(self, as_boss, group):
        ann, path = new_user(username="ann"), f"/groups/{group.pk}/members/"
        assert as_boss.post(path, id=ann.pk).status_code == 201
        assert members(as_boss, group) == {"ann": False, "boss": True}
        assert [row["name"] for row in as_boss.rows("/groups/")] == ["search"]
        assert as_boss.delete(f"{path}{ann.pk}/").status_code == 200
        assert members(as_boss, group) == {"boss": True}

    def test_and_those_of_groups_below(self, as_boss, group, other):
        update_group(other, parent_id=group.pk)
        ann = new_user(username="ann")
        assert as_boss.post(f"/groups/{other.pk}/members/", id=ann.pk, admin=True).status_code == 201
        assert members(as_boss, other) == {"ann": True}
        assert {row["name"] for row in as_boss.rows("/groups/")} == {"search", "other"}

    def test_a_service_account_is_no_admin(self, admin, group, account):
        response = admin.post(f"/groups/{group.pk}/members/", id=account.pk, admin=True)
        refused(response, 400, "ValidationError", "admin")


@promise("Admins of a group manage nothing of anybody else", target="403, nothing changed", suite="attack")
class TestEscalation:
    def test_not_another_group(self, as_boss, group, other):
        ann = new_user()
        above = create_group(name="above")
        update_group(group, parent_id=above.pk)
        for strange in (other, above):
            path = f"/groups/{strange.pk}/members/"
            refused(as_boss.get(path), 403, "PermissionDenied", "groups.view")
            refused(as_boss.post(path, id=ann.pk), 403, "PermissionDenied", "groups.modify")
            refused(as_boss.delete(f"{path}{ann.pk}/"), 403, "PermissionDenied", "groups.modify")
            refused(as_boss.get(f"/groups/{strange.pk}/"), 404, "NotFound")
            assert not strange.members.exists()
        refused(as_boss.get("/groups/987654/members/"), 403, "PermissionDenied")
        assert [row["name"] for row in as_boss.rows("/groups/")] == ["search"]

    def test_not_the_group_itself(self, as_boss, group):
        refused(as_boss.patch(f"/groups/{group.pk}/", name="mine"), 403, "PermissionDenied")
        refused(as_boss.delete(f"/groups/{group.pk}/"), 403, "PermissionDenied")
        refused(as_boss.post("/groups/", name="mine"), 403, "PermissionDenied")

    def test_not_who_is_an_admin_of_it(self, as_boss, group, boss):
        ann, peer = new_user(), add_member(group, user_id=new_user().pk, is_admin=True)
        path = f"/groups/{group.pk}/members/"
        refused(as_boss.post(path, id=ann.pk, admin=True), 403, "PermissionDenied", "admin")
        assert not group.members.contains(ann)
        for user in (peer, boss):
            refused(as_boss.post(path, id=user.pk, admin=False), 403, "PermissionDenied", "admin")
            refused(as_boss.delete(f"{path}{user.pk}/"), 403, "PermissionDenied", "admin")
            assert group.has_admin(user)

    def test_groups_modify_makes_no_admins(self, nobody, group):
        own = new_user("groups.modify", "groups.view")
        client = nobody.as_user(own)
        path = f"/groups/{group.pk}/members/"
        refused(client.post(path, id=own.pk, admin=True), 403, "PermissionDenied", "admin")
        assert client.post(path, id=own.pk).status_code == 201
        refused(client.post(path, id=own.pk, admin=True), 403, "PermissionDenied", "admin")
        key = nobody.with_credential(issue_key(owner=new_admin(), name="k", permissions=["groups.modify"]).text)
        refused(key.post(path, id=own.pk, admin=True), 403, "PermissionDenied", "admin")
        assert not group.has_admin(own)

    def test_they_do_not_pull_in_whose_requests_they_must_not_see(self, as_boss, group, other):
        path = f"/groups/{group.pk}/members/"
        stranger = create_service_account(username="stranger", group_id=other.pk)
        for user in (new_admin(), stranger):
            refused(as_boss.post(path, id=user.pk), 403, "PermissionDenied", "id")
            assert not group.members.contains(user)

    def test_it_ends_with_the_membership(self, as_boss, group, boss):
        remove_member(group, user_id=boss.pk)
        refused(as_boss.get(f"/groups/{group.pk}/members/"), 403, "PermissionDenied")
        assert as_boss.get("/groups/").status_code == 403
        Group.objects.get(pk=group.pk).admins.add(boss)  # a row that somebody left behind
        refused(as_boss.get(f"/groups/{group.pk}/members/"), 403, "PermissionDenied")

    def test_a_key_of_theirs_has_none_of_it(self, nobody, boss, group, account):
        key = nobody.with_credential(issue_key(owner=boss, name="k", permissions=["work", "models.create"]).text)
        refused(key.get(f"/groups/{group.pk}/members/"), 403, "PermissionDenied")
        refused(key.post(f"/groups/{group.pk}/members/", id=new_user().pk), 403, "PermissionDenied")
        refused(
            key.post("/limits/", userId=account.pk, measure="requests", window="day", amount=1), 403, "PermissionDenied"
        )
        refused(key.post("/keys/", name="k", user=account.pk), 403, "PermissionDenied")

    def test_whoever_manages_users_does_not_take_them_over(self, nobody, boss):
        manager = nobody.with_credential(issue_key(owner=new_admin(), name="k", permissions=["users.manage"]).text)
        response = manager.patch(f"/users/{boss.pk}/", newPassword="another pass phrase")
        refused(response, 403, "PermissionDenied", "administers a group")
        assert User.objects.get(pk=boss.pk).check_password(PASSWORD)


class TestKeys:
    def test_they_manage_the_keys_of_service_accounts(self, as_boss, account):
        response = as_boss.post("/keys/", name="k", user=account.pk)
        assert response.status_code == 201, response.text
        key = ApiKey.objects.get(owner=account)
        assert [row["id"] for row in as_boss.rows(f"/keys/?userId={account.pk}")] == [key.pk]
        assert as_boss.patch("/keys/", id=key.pk, networks=["192.0.2.0/24"]).status_code == 200
        assert as_boss.patch("/keys/", user=account.pk, name="k", newName="k2").status_code == 200
        assert as_boss.post(f"/keys/{key.pk}/rotate", overlapHours=0).status_code == 200
        assert as_boss.delete(f"/keys/?user={account.pk}&name=k2").status_code == 200

    @promise("Admins of a group issue no keys in other people's names", target="403 or 404", suite="attack")
    def test_but_no_others(self, as_boss, group, other, boss):
        ann = add_member(group, user_id=new_user(username="ann").pk)
        stranger = create_service_account(username="stranger", group_id=other.pk)
        add_member(group, user_id=stranger.pk)  # a member, and still the other group's
        for owner in (ann, stranger, new_admin()):
            key = issue_key(owner=owner, name="theirs").key
            refused(as_boss.post("/keys/", name="k", user=owner.pk), 403, "PermissionDenied")
            refused(as_boss.patch("/keys/", id=key.pk, newName="mine"), 404, "NotFound")
            refused(as_boss.patch("/keys/", user=owner.pk, name="theirs", newName="mine"), 403, "PermissionDenied")
            refused(as_boss.send("POST", f"/keys/{key.pk}/rotate"), 404, "NotFound")
            refused(as_boss.delete(f"/keys/{key.pk}/"), 404, "NotFound")
            refused(as_boss.delete(f"/keys/?user={owner.pk}"), 403, "PermissionDenied")
            assert [row["userId"] for row in as_boss.rows("/keys/") if row["userId"] == owner.pk] == []
            assert ApiKey.objects.live().get(pk=key.pk).name == "theirs"

    @promise("A key of a service account gives an admin of its group nothing more", target="403", suite="attack")
    def test_no_key_that_may_do_more_than_they(self, as_boss, group):
        role = Role.objects.get(pk=new_user("users.manage", "work").roles.get().pk)
        account = create_service_account(username="provisioner", group_id=group.pk, role_ids=[role.pk])
        permissions = [{"name": "Users.Manage"}]
        refused(
            as_boss.post("/keys/", name="k", user=account.pk, permissions=permissions), 403, "PermissionDenied", "lack"
        )
        key = issue_key(owner=account, name="theirs", permissions=["users.manage"]).key
        refused(as_boss.send("POST", f"/keys/{key.pk}/rotate"), 403, "PermissionDenied", "lack")
        refused(as_boss.patch("/keys/", id=key.pk, networks=[]), 403, "PermissionDenied", "lack")
        assert as_boss.post("/keys/", name="k", user=account.pk).status_code == 201
        mine = ApiKey.objects.get(owner=account, name="k")
        refused(as_boss.patch("/keys/", id=mine.pk, permissions=permissions), 403, "PermissionDenied", "lack")
        refused(as_boss.patch("/keys/", id=mine.pk, contentLogging="none"), 403, "PermissionDenied")
        refused(as_boss.patch("/keys/", id=mine.pk, locked=True), 403, "PermissionDenied")


class TestLimits:
    DAY = {"measure": "requests", "window": "day"}

    @pytest.fixture
    def groups_own(self, group):
        return set_limit(group=group, amount=100, **self.DAY)

    def test_they_set_limits_within_the_groups_own(self, as_boss, group, other, account, groups_own):
        update_group(other, parent_id=group.pk)
        key = issue_key(owner=account, name="k").key
        for subject in ({"userId": account.pk}, {"keyId": key.pk}, {"groupId": other.pk}):
            response = as_boss.post("/limits/", amount=101, **self.DAY, **subject)
            refused(response, 403, "PermissionDenied", "amount", "100")
            refused(as_boss.post("/limits/", amount=0, **self.DAY, **subject), 403, "PermissionDenied", "amount")
            response = as_boss.post("/limits/", amount=100, **self.DAY, **subject)
            assert response.status_code == 201, response.text
            path = f"/limits/{response.headers['LimitId']}/"
            assert as_boss.get(path).status_code == 200
            assert as_boss.patch(path, amount=50).status_code == 200
            refused(as_boss.patch(path, amount=101), 403, "PermissionDenied", "amount")
            refused(as_boss.patch(path, amount=0), 403, "PermissionDenied", "amount")
            refused(as_boss.patch(path, unpriced="ignore"), 403, "PermissionDenied", "unpriced")
            assert Limit.objects.get(pk=response.headers["LimitId"]).amount == 50
            assert as_boss.delete(path).status_code == 200

    @promise("A new key of a service account has no limit above its group's", target="403, no key", suite="attack")
    def test_nor_does_a_new_key_escape_it(self, as_boss, account, groups_own):
        def issue(**limit):
            return as_boss.post("/keys/", name="k", user=account.pk, limits=[self.DAY | limit])

        for place, wrong in (("amount", {"amount": 101}), ("amount", {"amount": 0}), ("unpriced", {"amount": 1})):
            response = issue(**wrong, **({"unpriced": "ignore"} if place == "unpriced" else {}))
            refused(response, 403, "PermissionDenied", f"limits[0].{place}")
        assert not ApiKey.objects.exists()
        assert issue(amount=100).status_code == 201
        assert Limit.objects.get(key__owner=account).amount == 100

    def test_nothing_tells_them_which_limits_others_have(self, as_boss):
        with_limit, without = new_user(), new_user()
        set_limit(user=with_limit, amount=5, **self.DAY)
        for user in (with_limit, without):
            response = as_boss.post("/limits/", userId=user.pk, amount=5, **self.DAY)
            refused(response, 403, "PermissionDenied", "service accounts")

    def test_nor_a_limit_of_a_group_above(self, as_boss, group, other, account):
        update_group(group, parent_id=other.pk)
        set_limit(group=other, amount=10, **self.DAY)
        values = {"name": "k", "user": account.pk}
        refused(as_boss.post("/keys/", limits=[self.DAY | {"amount": 11}], **values), 403, "PermissionDenied", "10")
        assert as_boss.post("/keys/", limits=[self.DAY | {"amount": 10}], **values).status_code == 201

    def test_an_admin_is_not_bounded(self, admin, account, groups_own):
        limits = [self.DAY | {"amount": 101, "unpriced": "ignore"}]
        assert admin.post("/keys/", name="k", user=account.pk, limits=limits).status_code == 201

    def test_a_limit_that_an_admin_set_is_theirs_too_within_the_groups_own(self, as_boss, account, groups_own):
        path = f"/limits/{set_limit(user=account, amount=5, **self.DAY).pk}/"
        assert as_boss.patch(path, amount=100).status_code == 200
        refused(as_boss.patch(path, amount=101), 403, "PermissionDenied", "amount")
        assert as_boss.delete(path).status_code == 200

    @promise("Admins of a group change no limit of anybody else", target="403 or 404", suite="attack")
    def test_but_no_others(self, as_boss, group, other, boss, groups_own, first_provider):
        ann = add_member(group, user_id=new_user().pk)
        stranger = create_service_account(username="stranger", group_id=other.pk)
        keys = [issue_key(owner=owner, name="k").key for owner in (ann, boss, stranger)]
        subjects = [{"userId": user.pk} for user in (ann, boss, stranger)] + [{"keyId": key.pk} for key in keys]
        subjects += [{"groupId": group.pk}, {"groupId": other.pk}, {"providerId": first_provider.pk}]
        for subject in subjects:
            refused(
                as_boss.post("/limits/", measure="tokens", window="day", amount=1, **subject), 403, "PermissionDenied"
            )
        assert Limit.objects.count() == 1
        path = f"/limits/{groups_own.pk}/"
        for response in (as_boss.patch(path, amount=99), as_boss.patch(path, amount=1000), as_boss.delete(path)):
            refused(response, 403, "PermissionDenied")
        strangers = set_limit(user=stranger, amount=1, **self.DAY)
        for response in (
            as_boss.patch(f"/limits/{strangers.pk}/", amount=2),
            as_boss.delete(f"/limits/{strangers.pk}/"),
        ):
            refused(response, 404, "NotFound")
        assert {row["id"] for row in as_boss.rows("/limits/")} == {groups_own.pk}

    def test_a_limit_of_a_group_above_bounds_them_too(self, as_boss, group, other, account):
        update_group(group, parent_id=other.pk)
        set_limit(group=other, amount=10, **self.DAY)
        refused(as_boss.post("/limits/", userId=account.pk, amount=11, **self.DAY), 403, "PermissionDenied", "10")
        assert as_boss.post("/limits/", userId=account.pk, amount=10, **self.DAY).status_code == 201


class TestConsole:
    @pytest.mark.long
    def test_parent_and_admins_are_set(self, console, group, other, boss):
        page = f"/admin/accounts/group/{group.pk}/change/"
        digest = console.get(page).context["adminform"].form.first_digest
        values = {"_seen": digest, "name": "search", "parent": other.pk, "members": [boss.pk], "admins": []}
        assert console.post(page, values).status_code == 302
        group.refresh_from_db()
        assert (group.parent, group.has_admin(boss)) == (other, False)

    @pytest.mark.long
    def test_an_admin_is_a_member(self, console, group):
        page = f"/admin/accounts/group/{group.pk}/change/"
        digest = console.get(page).context["adminform"].form.first_digest
        values = {"_seen": digest, "name": "search", "members": [], "admins": [new_user().pk]}
        assert list(console.post(page, values).context["adminform"].form.errors) == ["admins"]
