"""Changes to access rules."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from accounts.models import Group
from accounts.services import create_user
from gateway_project.errors import Conflict, NotFound, ValidationError
from providers.services import create_provider
from rules.models import Rule
from rules.patterns import compile_pattern
from rules.services import create_rule, update_rule

pytestmark = pytest.mark.either_store


def test_a_rule_is_stored_as_it_was_given(db):
    ann = create_user(username="ann", password="a secret")
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    create_rule(name="r", regex="gpt-.*", user_id=ann.pk, provider_id=provider.pk, description="why", enabled=False)
    rule = Rule.objects.get()
    assert (rule.name, rule.regex, rule.user, rule.group, rule.everyone) == ("r", "gpt-.*", ann, None, "")
    assert (rule.provider, rule.description) == (provider, "why")
    assert not Rule.objects.enabled().exists()


@pytest.mark.parametrize("regex", ["(", "(?=a)", "(a)\\1", "(a{900}){900}", "x" * 1001, "a\0b", "\ud800"])
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(db, regex):
    with pytest.raises(ValidationError, check=lambda error: error.field == "regex"):
        create_rule(name="r", regex=regex)
    assert not Rule.objects.exists()


@pytest.mark.parametrize("regex", ["", "gpt-4.*", r"(?i)(claude|gpt)[-.\w]*", r"[\p{L}\p{N}._/-]{1,200}"])
def test_patterns_that_people_write_compile(regex):
    assert compile_pattern(regex)


def test_a_name_that_exists_is_a_conflict(db):
    create_rule(name="r")
    with pytest.raises(Conflict, match="'r'"):
        create_rule(name="r")


@pytest.mark.parametrize("sorts", [("user", "group"), ("user", "everyone"), ("group", "everyone")])
def test_a_rule_is_for_one_sort_of_caller(db, sorts):
    values = {
        "user": create_user(username="ann", password="a secret"),
        "group": Group.objects.create(name="team"),
        "everyone": "user",
    }
    both = {sort: values[sort] for sort in sorts}
    ids = {name: values[name].pk if name in sorts else 0 for name in ("user", "group")}
    with pytest.raises(ValidationError, match="at most one"):
        create_rule(name="r", user_id=ids["user"], group_id=ids["group"])
    with pytest.raises(IntegrityError), transaction.atomic():
        Rule.objects.create(name="r", **both)


def test_everyone_is_users_or_groups(db):
    assert create_rule(name="users", user_id=0).everyone == "user"
    assert create_rule(name="groups", group_id=0).everyone == "group"


def test_a_rule_for_somebody_who_is_gone_is_for_nobody(db):
    group = Group.objects.create(name="team")
    create_rule(name="r", group_id=group.pk)
    group.delete()
    assert list(Rule.objects.values_list("user", "group", "everyone")) == [(None, None, "")]


def test_a_provider_that_a_rule_names_cannot_be_deleted(db):
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    create_rule(name="r", user_id=0, provider_id=provider.pk)
    with pytest.raises(ProtectedError):
        provider.delete()


def test_a_rule_that_was_deleted_meanwhile_is_not_brought_back(db):
    rule = create_rule(name="r")
    Rule.objects.all().delete()
    with pytest.raises(NotFound):
        update_rule(rule, enabled=False)
    assert not Rule.objects.exists()
