"""Each change of a rule makes a version, in the same transaction: who, when, what; and one can be restored."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.services import create_group, delete_group, delete_user
from gateway_project.api.audit import operator
from gateway_project.errors import Conflict, NotFound, ValidationError
from providers.services import create_provider
from rules.matching import Mismatch, RuleBook
from rules.models import Rule, RuleVersion
from rules.services import create_rule, delete_rule, restore_rule, update_rule
from rules.snapshots import judged_snapshot_of
from rules.versions.history import rules_at
from rules.versions.recording import attributes_of
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def history(rule_id):
    """What happened in each version, the oldest first."""
    versions = RuleVersion.objects.of(rule_id).order_by("number")
    return [(version.number, version.change, version.changes) for version in versions]


def rule_book_at(moment):
    return RuleBook(filter(None, map(judged_snapshot_of, rules_at(moment))))


def names_at(moment):
    return [(rule.pk, rule.name) for rule in rules_at(moment)]


def test_each_change_makes_a_version_with_what_differs():
    ann = new_user()
    rule = create_rule(name="one", user_id=0, effect="deny")
    update_rule(rule, name="two", user_id=ann.pk)
    update_rule(rule, name="two")  # changes nothing
    rule_id = rule.pk
    delete_rule(rule)
    assert history(rule_id) == [
        (1, "create", {}),
        (2, "update", {"name": ["one", "two"], "user_id": [0, ann.pk]}),
        (3, "delete", {}),
    ]
    newest = RuleVersion.objects.of(rule_id)[0]
    assert (newest.author_id, newest.author_name) == (None, operator())
    assert newest.attributes == {
        "name": "two", "description": "", "enabled": True, "effect": "deny", "position": 100, "regex": "",
        "user_id": ann.pk, "group_id": None, "provider_id": None,
    }  # fmt: skip


def test_a_change_that_is_refused_makes_no_version():
    create_rule(name="one")
    rule = create_rule(name="two")
    with pytest.raises(Conflict):
        update_rule(rule, name="one")
    with pytest.raises(ValidationError):
        create_rule(name="three", regex="(")
    assert RuleVersion.objects.count() == 2


def test_a_rule_without_versions_gets_one_of_how_it_was():
    rule = Rule.objects.create(name="old", everyone="group", regex="a")
    moment = rule.updated_at
    assert [one.pk for one in rules_at(moment)] == [rule.pk]
    assert rules_at(moment - timedelta(seconds=1)) == []
    update_rule(rule, regex="b")
    assert history(rule.pk) == [(1, "initial", {}), (2, "update", {"regex": ["a", "b"]})]
    assert [one.regex for one in rules_at(moment)] == ["a"]
    other = Rule.objects.create(name="other")
    other_id = other.pk
    delete_rule(other)
    assert [change for _, change, _ in history(other_id)] == ["initial", "delete"]


def test_a_deleted_group_or_user_makes_a_version_of_each_of_its_rules():
    group, ann = create_group(name="staff"), new_user()
    rules = [create_rule(name=name, group_id=group.pk) for name in "ab"]
    mine, other = create_rule(name="mine", user_id=ann.pk), create_rule(name="other", user_id=0)
    number = group.pk
    delete_group(group)
    for rule in rules:
        assert history(rule.pk)[1:] == [(2, "update", {"group_id": [number, None]})]
        rule.refresh_from_db()
        assert attributes_of(rule) == RuleVersion.objects.of(rule.pk)[0].attributes
    delete_user(ann)  # the row stays
    assert len(history(mine.pk)) == 1
    user_id = ann.pk
    ann.delete()
    assert history(mine.pk)[1:] == [(2, "update", {"user_id": [user_id, None]})]
    assert len(history(other.pk)) == 1


def test_the_rules_of_a_moment_are_as_they_were():
    before = timezone.now()
    one, two = create_rule(name="one", group_id=0), create_rule(name="two", enabled=False, user_id=new_user().pk)
    first_id, second_id = one.pk, two.pk
    created = timezone.now()
    update_rule(one, name="uno")
    renamed = timezone.now()
    delete_rule(two)
    deleted = timezone.now()
    restore_rule(rule_id=second_id, version=1)
    assert names_at(before) == []
    assert names_at(created) == [(first_id, "one"), (second_id, "two")]
    assert names_at(renamed) == [(first_id, "uno"), (second_id, "two")]
    assert names_at(deleted) == [(first_id, "uno")]
    assert names_at(timezone.now()) == [(first_id, "uno"), (second_id, "two")]
    assert [attributes_of(rule) for rule in rules_at(timezone.now())] == [
        attributes_of(rule) for rule in Rule.objects.order_by("pk")
    ]


def test_the_rule_book_of_a_moment_judges_as_it_did():
    rule = create_rule(name="all", user_id=0)
    denial = create_rule(name="no", user_id=0, effect="deny", regex="gpt.*")
    create_rule(name="off", user_id=0, enabled=False)
    rule_id, denial_id, denied = rule.pk, denial.pk, timezone.now()
    delete_rule(denial)
    delete_rule(rule)

    def verdicts(moment):
        considered = rule_book_at(moment).consider_rules("gpt-5", (), user_id=1, group_ids=())
        return {one.rule.id: one.mismatch for one in considered}

    then = verdicts(denied)
    assert then[denial_id] is None
    assert then[rule_id] is Mismatch.DECIDED
    assert Mismatch.DISABLED in then.values()
    assert {rule_id, denial_id}.isdisjoint(verdicts(timezone.now()))


def test_a_pattern_that_was_never_readable_denies_everything_or_allows_nothing():
    for effect in ("allow", "deny"):
        Rule.objects.create(name=effect, effect=effect, regex="(", everyone="user")
    book = rule_book_at(timezone.now())
    assert [(rule.name, rule.pattern) for rule in book.rules] == [("deny", None)]


def test_a_rule_is_restored_and_a_deleted_one_gets_its_place_back():
    rule = create_rule(name="one", user_id=0, regex="a")
    later = create_rule(name="later", user_id=0)
    rule_id = rule.pk
    update_rule(rule, regex="b", user_id=None, enabled=False)
    restore_rule(rule_id=rule_id, version=1)
    rule.refresh_from_db()
    assert (rule.regex, rule.everyone, rule.enabled) == ("a", "user", True)
    delete_rule(rule)
    restore_rule(rule_id=rule_id, version=2)
    assert [(row.pk, row.regex) for row in Rule.objects.order_by("pk")] == [(rule_id, "b"), (later.pk, "")]
    assert [change for _, change, _ in history(rule_id)] == ["create", "update", "restore", "delete", "restore"]
    assert create_rule(name="next").pk > later.pk


def test_what_cannot_be_restored_says_why_and_changes_nothing():
    provider, group = (
        create_provider(name="p", url="https://api.example.org", format_name="openai"),
        create_group(name="g"),
    )
    rule = create_rule(name="one", group_id=group.pk, provider_id=provider.pk)
    update_rule(rule, name="two")
    create_rule(name="one")
    with pytest.raises(Conflict, match="'one'"):
        restore_rule(rule_id=rule.pk, version=1)
    delete_group(group)
    with pytest.raises(ValidationError, check=lambda error: error.field == "groupId"):
        restore_rule(rule_id=rule.pk, version=2)
    with pytest.raises(NotFound, match="There is no version 9 of a rule with id"):
        restore_rule(rule_id=rule.pk, version=9)
    rule.refresh_from_db()
    assert (rule.name, rule.group_id, len(history(rule.pk))) == ("two", None, 3)


def test_versions_are_bounded(settings, monkeypatch):
    settings.GATEWAY_RULE_VERSIONS = 3
    rule = create_rule(name="r")
    for number in range(5):
        update_rule(rule, name=f"r{number}")
    assert [number for number, *_ in history(rule.pk)] == [4, 5, 6]
    monkeypatch.setattr("rules.versions.recording.MAX_DELETED", 2)
    for number in range(4):
        delete_rule(create_rule(name=f"gone {number}"))
    names = [version.attributes["name"] for version in RuleVersion.objects.of_deleted_rules()]
    assert names == ["gone 3", "gone 2"]
    assert RuleVersion.objects.of(rule.pk).count() == 3
