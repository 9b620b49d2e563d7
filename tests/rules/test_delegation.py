"""Rules that admins of a group write: for the group, and only ones that take models away."""

import random
from types import SimpleNamespace

import pytest

from accounts.services import add_member, create_group
from keys.services import issue_key
from providers.catalogue import Target
from rules.access_tests.services import create_access_test
from rules.matching import RuleBook, RuleSnapshot
from rules.models import Rule, RuleVersion
from rules.services import create_rule, delete_rule
from rules.versions import recording
from tests.support.management import new_user, refused
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


@pytest.fixture
def group(db):
    return create_group(name="search")


@pytest.fixture
def below(group):
    return create_group(name="below", parent_id=group.pk)


@pytest.fixture
def other(db):
    return create_group(name="other")


@pytest.fixture
def boss(group):
    return add_member(group, user_id=new_user(username="boss").pk, is_admin=True)


@pytest.fixture
def as_boss(nobody, boss):
    return nobody.as_user(boss)


def deny(client, group, **attributes):
    return client.post("/rules/", **{"name": "No large", "groupId": group.pk, "effect": "deny"} | attributes)


def test_they_write_change_and_delete_rules_that_deny(as_boss, group, below):
    for target, name in ((group, "No large"), (below, "No small")):
        assert deny(as_boss, target, name=name, regex="gpt-.*").status_code == 201
    rows = as_boss.rows("/rules/")
    assert {(row["name"], row["groupId"], row["effect"]) for row in rows} == {
        ("No large", group.pk, "deny"), ("No small", below.pk, "deny"),
    }  # fmt: skip
    path = f"/rules/{rows[0]['id']}/"
    assert as_boss.patch(path, enabled=False, groupId=below.pk).status_code == 200
    assert as_boss.get(path).status_code == 200
    assert as_boss.delete(path).status_code == 200
    assert Rule.objects.count() == 1


@promise(
    "An admin of a group widens nothing by rules", target="403 for rules that allow, or are for others", suite="attack"
)
def test_they_allow_nothing_and_reach_nobody_else(as_boss, boss, group, other):
    for attributes, field in (
        ({"effect": "allow"}, "effect"),
        ({"groupId": other.pk}, "groupId"),
        ({"groupId": 0}, "groupId"),
        ({"groupId": None, "userId": 0}, "groupId"),
        ({"groupId": None, "userId": boss.pk}, "groupId"),
        ({"groupId": 99999}, "groupId"),
    ):
        refused(deny(as_boss, group, **attributes), 403, "PermissionDenied", field)
    refused(as_boss.post("/rules/", name="x", groupId=group.pk), 403, "PermissionDenied", "effect")
    refused(deny(as_boss, group, userId=boss.pk), 400, "ValidationError", "userId")
    assert not Rule.objects.exists()
    deny(as_boss, group)
    path = f"/rules/{Rule.objects.get().pk}/"
    for attributes in ({"effect": "allow"}, {"groupId": other.pk}, {"groupId": None}, {"groupId": 0}):
        refused(as_boss.patch(path, **attributes), 403, "PermissionDenied")
    refused(as_boss.patch(path, userId=boss.pk), 400, "ValidationError")
    assert Rule.objects.get().effect == "deny"


def test_rules_of_others_stay_as_they_are(as_boss, admin, group, other):
    by_admin = create_rule(name="By an admin", group_id=group.pk, effect="deny")
    elsewhere = create_rule(name="Elsewhere", group_id=other.pk)
    everyone = create_rule(name="Everyone", user_id=0)
    assert [row["name"] for row in as_boss.rows("/rules/")] == ["By an admin"]
    path = f"/rules/{by_admin.pk}/"
    refused(as_boss.patch(path, enabled=False), 403, "PermissionDenied")
    refused(as_boss.delete(path), 403, "PermissionDenied")
    for rule in (elsewhere, everyone):
        for send in (as_boss.get, as_boss.patch, as_boss.delete):
            refused(send(f"/rules/{rule.pk}/"), 404, "NotFound")
    deny(as_boss, group)
    own = f"/rules/{Rule.objects.get(name='No large').pk}/"
    assert admin.patch(own, description="Agreed.").status_code == 200
    refused(as_boss.delete(own), 403, "PermissionDenied")
    refused(as_boss.post(f"{own}restore/", version=1), 403, "PermissionDenied")


def test_their_number_is_bounded(as_boss, group, below, settings):
    settings.GATEWAY_MAX_GROUP_RULES = 2
    create_rule(name="By an admin", group_id=group.pk, effect="deny")
    for name in ("a", "b"):
        assert deny(as_boss, group, name=name).status_code == 201
    refused(deny(as_boss, group, name="c"), 409, "Conflict", "2 rules")
    assert deny(as_boss, below, name="c").status_code == 201
    refused(as_boss.patch(f"/rules/{Rule.objects.get(name='c').pk}/", groupId=group.pk), 409, "Conflict")
    path = f"/rules/{Rule.objects.get(name='a').pk}/"
    assert as_boss.patch(path, description="Changed.").status_code == 200
    assert as_boss.delete(path).status_code == 200
    assert deny(as_boss, group, name="c2").status_code == 201
    assert create_rule(name="By an admin, too", group_id=group.pk)


def test_deleting_many_forgets_no_rules_of_others(as_boss, group, other, monkeypatch):
    monkeypatch.setattr(recording, "MAX_DELETED_OF_GROUP", 2)
    by_admin = create_rule(name="By an admin", group_id=group.pk, effect="deny")
    elsewhere = create_rule(name="Elsewhere", group_id=other.pk, effect="deny", is_delegated=True)
    ids = [by_admin.pk, elsewhere.pk]
    for rule in (by_admin, elsewhere):
        delete_rule(rule)
    for name in "abcd":
        response = deny(as_boss, group, name=name)
        ids.append(int(response.headers["RuleId"]))
        assert as_boss.delete(f"/rules/{ids[-1]}/").status_code == 200
    remembered = RuleVersion.objects.of_deleted_rules().values_list("rule_id", flat=True)
    assert list(remembered) == [ids[5], ids[4], ids[1], ids[0]]


class TestWhyTheyOnlyDeny:
    """Whatever a group may use, all that its admins could grant it to may use already (docs/groups.md)."""

    GROUP, ABOVE, BELOW, ELSEWHERE = 1, 2, 3, 4
    MEMBER, ACCOUNT_BELOW = (7, (GROUP, ABOVE)), (8, (BELOW, GROUP, ABOVE))
    OFFERS = tuple(Target(SimpleNamespace(id=number), "m") for number in (1, 2))

    def rule(self, chance, number):
        audiences = [(True, None, None), (False, 7, None), (False, 8, None)]
        audiences += [(False, None, group) for group in (self.GROUP, self.ABOVE, self.BELOW, self.ELSEWHERE)]
        everyone, user, group = chance.choice(audiences)
        provider, denies = chance.choice([None, 1, 2]), chance.random() < 0.3
        return RuleSnapshot(number, f"r{number}", None, user, group, everyone, provider, denies)

    def allowed(self, rules, user_id, groups):
        book = RuleBook(rules)
        return {one.provider.id for one in self.OFFERS if book.allows(one, user_id=user_id, group_ids=groups)}

    @pytest.mark.parametrize("seed", range(200))
    def test_an_allow_for_what_the_group_may_use_changes_nothing(self, seed):
        chance = random.Random(seed)
        rules = [self.rule(chance, number) for number in range(1, 9)]
        of_group = self.allowed(rules, 99, (self.GROUP, self.ABOVE))
        grants = [
            RuleSnapshot(100 + provider, "grant", None, user, group, False, provider)
            for provider in of_group
            for user, group in ((7, None), (8, None), (None, self.GROUP), (None, self.BELOW))
        ]
        for user_id, groups in (self.MEMBER, self.ACCOUNT_BELOW):
            assert self.allowed([*rules, *grants], user_id, groups) == self.allowed(rules, user_id, groups)


def test_a_key_and_a_former_admin_write_none(nobody, boss, as_boss, group):
    deny(as_boss, group)
    path = f"/rules/{Rule.objects.get().pk}/"
    key = issue_key(owner=boss, name="k", permissions=["work", "models.create"]).text
    group.admins.clear()
    for client in (nobody.with_credential(key), as_boss):
        refused(deny(client, group, name="x"), 403, "PermissionDenied")
        refused(client.get("/rules/"), 403, "PermissionDenied")
        refused(client.delete(path), 403, "PermissionDenied")
    assert Rule.objects.count() == 1


def test_an_access_test_keeps_them_and_shows_no_rules(as_boss, group, first_provider):
    first_provider.models.create(name="gpt-5")
    create_rule(name="A secret rule", user_id=0)
    create_access_test(name="The group may", group_id=group.pk, model="gpt-5", expected="allowed")
    response = deny(as_boss, group)
    assert (response.status_code, response.json()["exception"]) == (409, "AccessTestFailed")
    assert "secret" not in response.text
