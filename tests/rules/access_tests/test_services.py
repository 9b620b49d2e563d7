"""Which changes access tests refuse, and which they let pass."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Group, Role
from accounts.services import (
    add_member,
    create_group,
    create_role,
    delete_group,
    delete_user,
    remove_member,
    update_group,
    update_role,
    update_user,
)
from gateway_project.api.access import Caller
from gateway_project.api.audit import Actor, acting_as
from gateway_project.database.guarding import Access, guarded_change, override_access_tests
from gateway_project.errors import AccessTestFailed, Conflict, ValidationError
from keys.services import delete_keys, issue_key, update_key
from providers.models import Provider
from providers.services import (
    add_model,
    change_model,
    create_provider,
    delete_provider,
    remove_model,
    update_provider,
)
from rules.access_tests.judging import verdicts_of
from rules.access_tests.models import AccessTest
from rules.access_tests.services import MAX_TESTS, create_access_test, delete_access_test, update_access_test
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias, delete_alias, update_alias
from rules.models import Rule
from rules.services import create_rule, delete_rule, restore_rule, update_rule
from telemetry.audit.models import AuditEntry
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def breaks(change, *tests: AccessTest) -> AccessTestFailed:
    """The change is refused for these tests, and nothing is written."""
    with pytest.raises(AccessTestFailed) as refusal:
        change()
    assert {test.id for test in refusal.value.tests} == {test.pk for test in tests}
    assert all(verdict.holds for verdict in verdicts_of(list(AccessTest.objects.shown())))
    return refusal.value


def fresh_provider() -> Provider:
    return Provider.objects.get(name="openai")


def test_a_change_of_rules_is_refused_by_each_test_that_it_breaks(scene):
    breaks(lambda: update_rule(scene.rule, enabled=False), scene.allowed)
    breaks(lambda: update_rule(Rule.objects.get(), regex="o3"), scene.allowed)
    breaks(lambda: delete_rule(Rule.objects.get()), scene.allowed)
    breaks(lambda: create_rule(name="no", effect="deny", user_id=0), scene.allowed)
    breaks(lambda: create_rule(name="no", effect="deny", provider_id=scene.provider.pk, user_id=0), scene.allowed)
    error = breaks(lambda: create_rule(name="all", group_id=scene.interns.pk), scene.denied)
    assert error.message == (
        "The access test Interns may not would fail. Rule all allows it. Provider openai may serve gpt-5."
    )
    assert Rule.objects.get().enabled


def test_a_version_is_restored_through_the_same_tests(scene):
    with override_access_tests("for the moment"):
        update_rule(scene.rule, enabled=False)
    with override_access_tests("for good"):
        update_rule(scene.rule, enabled=True)
    breaks(lambda: restore_rule(rule_id=scene.rule.pk, version=2), scene.allowed)
    restore_rule(rule_id=scene.rule.pk, version=1)


def test_a_change_of_users_roles_and_groups_is_refused(scene):
    breaks(lambda: update_user(scene.ann, is_active=False), scene.allowed)
    breaks(lambda: update_user(scene.ann, role_ids=[]), scene.allowed)
    breaks(lambda: delete_user(scene.ann), scene.allowed)
    breaks(lambda: update_role(Role.objects.get(name="user"), feature_ids=[]), scene.allowed)
    scene.ann.refresh_from_db()
    assert scene.ann.is_usable
    above = create_group(name="everybody")
    create_rule(name="above", group_id=above.pk)
    breaks(lambda: update_group(scene.interns, parent_id=above.pk), scene.denied)
    update_group(scene.interns, name="trainees")


@pytest.mark.long
def test_a_membership_is_access_too(scene):
    bob, team = new_user(username="bob"), create_group(name="team")
    create_rule(name="team", group_id=team.pk)
    add_member(team, user_id=bob.pk)
    by_group = create_access_test(name="Bob may", user_id=bob.pk, model="gpt-5")
    breaks(lambda: remove_member(team, user_id=bob.pk), by_group)
    breaks(lambda: update_group(team, member_ids=[]), by_group)
    member = create_access_test(name="The team may", group_id=team.pk, model="gpt-5")
    error = breaks(lambda: delete_group(team), by_group, member)
    assert "The group with the id" in error.message
    with override_access_tests("The team is no more."):
        delete_group(Group.objects.get(name="team"))
    assert not verdicts_of([member])[0].holds
    update_access_test(member, description="A test outlives what it is about.")
    AccessTest.objects.filter(pk__in=(member.pk, by_group.pk)).delete()
    banned = create_group(name="banned")
    create_rule(name="ban", effect="deny", group_id=banned.pk)
    breaks(lambda: add_member(banned, user_id=scene.ann.pk), scene.allowed)


def test_a_change_of_providers_and_models_is_refused(scene):
    breaks(lambda: update_provider(fresh_provider(), enabled=False), scene.allowed)
    breaks(lambda: delete_provider(fresh_provider()), scene.allowed)
    breaks(lambda: remove_model(fresh_provider().models.get(name="gpt-5")), scene.allowed)
    breaks(lambda: change_model(fresh_provider().models.get(name="gpt-5"), name="gpt-4"), scene.allowed)
    remove_model(fresh_provider().models.get(name="gpt-5-mini"))
    none = create_access_test(name="No o3", user_id=scene.ann.pk, model="gpt-5x", expected="denied")
    breaks(lambda: add_model(provider=fresh_provider(), name="gpt-5x"), none)
    options = {"url": "https://api.example.org", "format_name": "openai", "models": ["gpt-5x"]}
    breaks(lambda: create_provider(name="other", **options), none)


def test_a_test_of_one_provider_is_about_that_one(scene):
    other = create_provider(name="other", url="https://b.example.org", format_name="openai", models=["gpt-5"])
    only = create_access_test(name="Not there", user_id=scene.ann.pk, model="gpt-5", provider_id=other.pk)
    breaks(lambda: create_rule(name="no", effect="deny", user_id=0, provider_id=other.pk), only)
    # The first rule that matches allows the other provider only; a request that names this one gets to the next.
    create_rule(name="before", user_id=scene.ann.pk, provider_id=scene.provider.pk)
    breaks(lambda: delete_provider(Provider.objects.get(name="other")), only)


def test_a_change_of_aliases_is_refused(scene):
    target = [TargetDraft(provider_id=scene.provider.pk, model="gpt-5-mini")]
    alias = create_alias(name="fast", targets=target)
    create_rule(name="fast", user_id=scene.ann.pk, regex="fast")
    fast = create_access_test(name="Fast", user_id=scene.ann.pk, model="fast")
    breaks(lambda: update_alias(alias, enabled=False), fast)
    breaks(lambda: update_alias(alias, targets=[]), fast)
    breaks(lambda: delete_alias(alias), fast)
    # An alias hides the model of its name.
    breaks(lambda: create_alias(name="gpt-5"), scene.allowed)


def test_a_denial_holds_whatever_the_tags(scene):
    beta = TargetDraft(provider_id=scene.provider.pk, model="gpt-5", match={"tags": {"stage": "beta"}})
    create_alias(name="new", targets=[beta])
    create_rule(name="new", user_id=scene.ann.pk, regex="new")
    denied = create_access_test(name="a", user_id=scene.ann.pk, model="new", expected="denied")
    allowed = create_access_test(name="b", user_id=scene.ann.pk, model="new")
    assert [verdict.holds for verdict in verdicts_of([denied, allowed])] == [False, False]
    issue_key(owner=scene.ann, name="beta", tags={"stage": "beta"})
    tagged = create_access_test(name="c", user_id=scene.ann.pk, key_name="beta", model="new")
    assert verdicts_of([tagged])[0].holds


def test_a_key_may_use_less_than_its_owner(scene):
    key = issue_key(owner=scene.ann, name="laptop", models=["gpt-5"]).key
    by_key = create_access_test(name="Laptop", user_id=scene.ann.pk, key_name="laptop", model="gpt-5")
    mini = create_access_test(
        name="Not mini", user_id=scene.ann.pk, key_name="laptop", model="gpt-5-mini", expected="denied"
    )
    breaks(lambda: update_key(key, models=[]), mini)
    breaks(lambda: update_key(key, models=["o3"]), by_key)
    other = create_provider(name="other", url="https://b.example.org", format_name="openai")
    create_rule(name="not there", effect="deny", user_id=scene.ann.pk, provider_id=other.pk)
    error = breaks(lambda: update_key(key, provider=other), by_key)
    assert "No rule allows ann" in error.message
    key.refresh_from_db()
    update_key(key, locked=True)
    assert "locked" in verdicts_of([by_key])[0].because
    delete_keys([key])
    assert verdicts_of([by_key])[0].because == "The user has no usable key named laptop."


def test_a_test_that_failed_before_refuses_nothing(scene):
    create_access_test(name="Not yet", user_id=scene.ann.pk, model="o3")
    update_rule(scene.rule, regex="gpt-5")
    assert not verdicts_of([AccessTest.objects.get(name="Not yet")])[0].holds


def test_the_audit_keeps_the_reason_and_the_tests(scene):
    with override_access_tests("Agreed with finance."):
        update_rule(scene.rule, enabled=False)
    entry = AuditEntry.objects.get(action="override")
    assert (entry.resource, "Ann may" in entry.message, "Agreed with finance." in entry.message) == (
        "access-tests", True, True,
    )  # fmt: skip
    assert f'"id":{scene.allowed.pk},"name":"Ann may"' in entry.after
    update_rule(scene.rule, description="breaks nothing more")
    assert AuditEntry.objects.filter(action="override").count() == 1


@pytest.mark.parametrize("reason", ["x" * 501, "a\nb", "\u202e"])
def test_what_is_no_reason_overrides_nothing(scene, reason):
    with override_access_tests(reason, header="X-Svc-Override"), pytest.raises(ValidationError, match="printable"):
        update_rule(scene.rule, enabled=False)
    scene.rule.refresh_from_db()
    assert scene.rule.enabled


def test_several_changes_count_as_one(scene):
    """What is broken in between does not matter."""
    with guarded_change(Access.RULES):
        delete_rule(scene.rule)
        create_rule(name="Instead", user_id=scene.ann.pk)
    with pytest.raises(AccessTestFailed), guarded_change(Access.RULES):
        create_rule(name="Another", user_id=0, regex="o3")
        delete_rule(Rule.objects.get(name="Instead"))
    assert [rule.name for rule in Rule.objects.all()] == ["Instead"]


def test_who_may_not_see_rules_gets_no_reasons(scene):
    with acting_as(lambda: Actor(Caller(user=scene.ann))):
        error = breaks(lambda: update_rule(scene.rule, enabled=False), scene.allowed)
    assert error.message == "The access test Ann may would fail."


def test_without_tests_a_change_costs_one_query(scene):
    AccessTest.objects.all().delete()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        update_rule(scene.rule, description="x")
    about = [query["sql"] for query in queries if "accesstest" in query["sql"]]
    assert len(about) == 1
    assert "LIMIT 1" in about[0]


def test_a_change_of_a_name_or_a_password_runs_no_tests(scene):
    with CaptureQueriesContext(connection) as queries:
        update_user(scene.ann, display_name="Ann", email="ann@example.org")
    assert not [query for query in queries if "accesstest" in query["sql"]]


def test_a_test_is_about_a_user_or_a_group(scene):
    with pytest.raises(ValidationError, match="exactly one"):
        create_access_test(name="n", model="m", user_id=scene.ann.pk, group_id=create_group(name="both").pk)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"user_id": None}, "exactly one"),
        ({"user_id": 987654}, "987654"),
        ({"provider_id": 987654}, "987654"),
        ({"key_name": "none"}, "no key named"),
        ({"model": ""}, "model"),
        ({"name": ""}, "name"),
        ({"expected": "perhaps"}, "expected"),
    ],
)
def test_what_a_test_cannot_be_about_is_refused(scene, values, words):
    with pytest.raises(ValidationError) as refusal:
        create_access_test(**{"name": "n", "model": "m", "user_id": scene.ann.pk} | values)
    assert words in refusal.value.sentence


def test_a_key_is_a_users(scene):
    with pytest.raises(ValidationError, match="needs userId"):
        create_access_test(name="n", model="m", group_id=scene.interns.pk, key_name="laptop")


def test_names_are_unique_and_tests_are_bounded(scene):
    with pytest.raises(Conflict, match="exists already"):
        create_access_test(name="Ann may", user_id=scene.ann.pk, model="m")
    AccessTest.objects.bulk_create(
        AccessTest(name=f"t{number}", user=scene.ann, model="m") for number in range(MAX_TESTS - 2)
    )
    with pytest.raises(Conflict, match="the maximum"):
        create_access_test(name="one more", user_id=scene.ann.pk, model="m")
    delete_access_test(scene.denied)
    create_access_test(name="one more", user_id=scene.ann.pk, model="m")


def test_the_role_of_a_new_user_is_no_change_of_access(scene):
    create_role(name="nothing")
    assert new_user(username="carl").pk
