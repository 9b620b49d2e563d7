"""The problems of the rule book over HTTP: one of each kind, and none where nothing is wrong."""

import pytest

from accounts.services import create_group, update_group, update_user
from keys.services import issue_key, update_key
from providers.services import create_provider, update_provider
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias, update_alias
from rules.services import create_rule, update_rule
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


@pytest.fixture
def provider(admin):
    return create_provider(
        name="east", format_name="openai", url="http://127.0.0.1:9/v1", models=["lint-a", "lint-b", "lint-c"]
    )


def problems(admin) -> dict[str, list[dict]]:
    """The problems by kind."""
    response = admin.get("/rules/lint/")
    assert response.status_code == 200, response.text
    kinds: dict[str, list[dict]] = {}
    for row in response.json()["data"]:
        kinds.setdefault(row["problem"], []).append(row)
    return kinds


def rules_with(kind: str, admin) -> list[int]:
    return [row["ruleId"] for row in problems(admin).get(kind, ())]


def test_rules_without_effect_are_found(admin, provider):
    first, second = (
        create_rule(name="a", user_id=0, regex="lint-a"),
        create_rule(name="b", user_id=0, regex="lint-b|lint-c"),
    )
    together = create_rule(name="both", user_id=0, regex="lint-.*")
    nothing = create_rule(name="nothing", user_id=0, regex="nosuch")
    denied = create_rule(name="denied", user_id=0, regex="lint-a", provider_id=provider.pk)
    create_rule(name="off", user_id=0, regex="nosuch", enabled=False)
    listed = problems(admin)
    assert [row["ruleId"] for row in listed["unreachable"]] == [nothing.pk]
    assert [row["ruleId"] for row in listed["shadowed"]] == [together.pk, denied.pk]
    assert listed["shadowed"][0] == {
        "ruleId": together.pk,
        "problem": "shadowed",
        "message": "Rule both: The rule has no effect: 'a' and 'b' allow the same requests before it.",
        "fix": {"action": "disableRule", "id": together.pk, "description": "Disable the rule."},
    }
    create_rule(name="no", user_id=0, regex="lint-a", effect="deny")
    assert rules_with("denied", admin) == [first.pk, denied.pk]
    update_rule(second, enabled=False)
    assert together.pk not in rules_with("shadowed", admin)


def test_users_without_keys_and_groups_without_rules_are_found(admin, provider):
    ann = new_user()
    rule = create_rule(name="ann", user_id=ann.pk)
    group, other = create_group(name="staff"), create_group(name="other", member_ids=[ann.pk])
    create_rule(name="other", group_id=other.pk)
    assert rules_with("userWithoutKeys", admin) == [rule.pk]
    assert [row["fix"] for row in problems(admin)["groupWithoutRules"]] == [
        {"action": "createGroupRule", "id": group.pk, "description": "Prepare a disabled rule for the group."}
    ]
    key = issue_key(owner=ann, name="k").key
    assert rules_with("userWithoutKeys", admin) == []
    update_key(key, locked=True)
    assert rules_with("userWithoutKeys", admin) == [rule.pk]
    update_user(ann, is_active=False)
    assert rules_with("userWithoutKeys", admin) == []
    assert rule.pk in rules_with("nobody", admin)


def keys_without_rules(admin) -> set[int]:
    return {row["fix"]["id"] for row in problems(admin).get("keyWithoutRules", ())}


def test_keys_that_no_rule_lets_work_are_found(admin, provider):
    ann, ben = new_user(), new_user()
    group = create_group(name="staff", member_ids=[ann.pk])
    create_rule(name="r", group_id=group.pk, regex="lint-a")
    works = issue_key(owner=ann, name="works").key
    linked = issue_key(owner=ann, name="linked", provider=provider).key
    narrow = issue_key(owner=ann, name="narrow", model_patterns=["lint-b"]).key
    alone = issue_key(owner=ben, name="alone").key
    useless = {narrow.pk, alone.pk}
    assert keys_without_rules(admin) & {works.pk, linked.pk, *useless} == useless
    create_rule(name="no", user_id=ann.pk, provider_id=provider.pk, effect="deny")
    assert {works.pk, linked.pk} <= keys_without_rules(admin)


def test_rules_of_a_group_are_for_the_groups_below_it(admin, provider):
    ann = new_user()
    above = create_group(name="company")
    below = create_group(name="team", member_ids=[ann.pk], parent_id=above.pk)
    rule = create_rule(name="r", group_id=above.pk, provider_id=provider.pk)
    works = issue_key(owner=ann, name="works").key
    issue_key(owner=ann, name="linked", provider=provider)
    listed = problems(admin)
    assert works.pk not in keys_without_rules(admin)
    assert not {above.pk, below.pk} & {row["fix"]["id"] for row in listed.get("groupWithoutRules", ())}
    assert not any(" of provider east:" in row["message"] for row in listed.get("modelForNobody", ()))
    assert rule.pk not in [row["ruleId"] for rows in listed.values() for row in rows]


def test_models_that_nobody_may_use_are_found(admin, provider):
    ann = new_user()
    create_rule(name="ann", user_id=ann.pk, regex="lint-[ab]")
    create_rule(name="no", user_id=0, regex="lint-b", effect="deny")
    nobody = problems(admin)["modelForNobody"]
    own = [row["message"] for row in nobody if " of provider east:" in row["message"]]
    assert [message.split()[1] for message in own] == ["lint-b", "lint-c"]
    update_user(ann, is_active=False)
    own = [row for row in problems(admin)["modelForNobody"] if " of provider east:" in row["message"]]
    assert len(own) == 3


def test_aliases_that_lead_nowhere_are_found(admin, provider):
    create_rule(name="all", user_id=0)
    alias = create_alias(name="lint-alias", targets=[TargetDraft(provider.pk, "lint-a")])
    outer = create_alias(name="lint-outer", targets=[TargetDraft(alias="lint-alias")])
    assert "aliasWithoutTargets" not in problems(admin)
    update_provider(provider, enabled=False)
    assert [row["fix"]["id"] for row in problems(admin)["aliasWithoutTargets"]] == [alias.pk, outer.pk]


def test_rules_for_the_name_of_an_alias_have_an_effect(admin, provider):
    create_alias(name="lint-fast", targets=[TargetDraft(provider.pk, "lint-a")])
    model = create_rule(name="model", user_id=0, regex="lint-a")
    own = create_rule(name="alias", user_id=0, regex="lint-fast")
    both = create_rule(name="both", user_id=0, regex="lint-a|lint-fast", position=99)
    assert rules_with("shadowed", admin) == [model.pk, own.pk]
    update_rule(own, regex="nosuch")
    assert rules_with("unreachable", admin) == [own.pk]
    update_rule(both, position=101)
    assert both.pk not in rules_with("shadowed", admin)
    denies = create_rule(name="no", user_id=0, regex="lint-fast", effect="deny")
    assert rules_with("unreachable", admin) == [own.pk]
    again = create_rule(name="no more", user_id=0, regex="lint-fast", effect="deny")
    elsewhere = create_provider(name="west", format_name="openai", url="http://127.0.0.1:9/v1", models=["lint-z"])
    nothing = create_rule(name="west", user_id=0, regex="lint-fast", provider_id=elsewhere.pk, effect="deny")
    listed = problems(admin)
    assert [row["ruleId"] for row in listed["shadowed"]] == [both.pk, again.pk]  # of the first, only lint-a is left
    assert [row["ruleId"] for row in listed["unreachable"]] == [own.pk, nothing.pk]
    assert denies.pk not in [row["ruleId"] for rows in listed.values() for row in rows]


def test_rules_for_names_that_an_alias_with_stars_stands_for_have_an_effect(admin, provider):
    create_alias(name="lint-any-*", targets=[TargetDraft(provider.pk, "lint-a")])
    create_rule(name="models", user_id=0, regex="lint-.*")
    allows = create_rule(name="one", user_id=0, regex="lint-any-one")
    denies = create_rule(name="no", user_id=0, regex="lint-any-o.*", effect="deny")
    nothing = create_rule(name="nothing", user_id=0, regex="other-.*", effect="deny")
    listed = problems(admin)
    assert [row["ruleId"] for row in listed["unreachable"]] == [nothing.pk]
    about = [row["ruleId"] for rows in listed.values() for row in rows]
    assert not {allows.pk, denies.pk} & set(about)


def aliases_for_nobody(admin) -> dict[int, str]:
    return {row["fix"]["id"]: row["fix"]["action"] for row in problems(admin).get("aliasForNobody", ())}


def test_aliases_that_nobody_may_use_are_found(admin, provider):
    ann, group = new_user(), create_group(name="staff")
    create_rule(name="ann", user_id=ann.pk, regex="lint-[ab]")
    targets = [TargetDraft(provider.pk, "lint-a"), TargetDraft(provider.pk, "lint-c")]
    alias = create_alias(name="fast", targets=targets)
    stars = create_alias(name="my-*", targets=targets)
    assert aliases_for_nobody(admin) == dict.fromkeys([alias.pk, stars.pk], "createAliasRule")
    name = create_rule(name="name", user_id=ann.pk, regex="fast", provider_id=provider.pk)
    create_rule(name="one name", user_id=0, regex="my-own")
    assert aliases_for_nobody(admin) == {}
    update_alias(alias, targets=[TargetDraft(provider.pk, "lint-c")])
    assert aliases_for_nobody(admin) == {alias.pk: "disableAlias"}
    update_alias(alias, targets=[TargetDraft(provider.pk, "lint-a", match={"groupId": group.pk})])
    assert aliases_for_nobody(admin) == {alias.pk: "disableAlias"}
    update_group(group, member_ids=[ann.pk])
    assert aliases_for_nobody(admin) == {}
    match = {"userId": ann.pk, "keyName": "k"}
    update_alias(alias, targets=[TargetDraft(provider.pk, "lint-a", match=match)])
    assert aliases_for_nobody(admin) == {alias.pk: "disableAlias"}
    issue_key(owner=ann, name="k")
    assert aliases_for_nobody(admin) == {}
    denies = create_rule(name="no", group_id=group.pk, regex="fast", effect="deny")
    assert aliases_for_nobody(admin) == {alias.pk: "createAliasRule"}
    update_rule(denies, enabled=False)
    update_rule(name, enabled=False)
    assert aliases_for_nobody(admin) == {alias.pk: "createAliasRule"}


def test_a_rule_that_denies_is_not_disabled_because_its_user_has_no_key(admin, provider):
    ann = new_user()
    rule = create_rule(name="no", user_id=ann.pk, effect="deny")
    assert rule.pk not in rules_with("userWithoutKeys", admin)


def test_disabled_rules_are_no_rules_of_a_group(admin, provider):
    group = create_group(name="staff")
    rule = create_rule(name="r", group_id=group.pk, enabled=False)
    assert [row["fix"]["id"] for row in problems(admin)["groupWithoutRules"]] == [group.pk]
    update_rule(rule, enabled=True)
    assert "groupWithoutRules" not in problems(admin)


def test_who_may_see_rules_may_see_their_problems(admin, nobody):
    refused(nobody.as_user(new_user("rules.modify")).get("/rules/lint/"), 403, "PermissionDenied", "rules.view")
    assert nobody.as_user(new_user("rules.view")).get("/rules/lint/").status_code == 200
    refused(admin.get("/rules/lint/?x=1"), 400, "ValidationError", "x")
