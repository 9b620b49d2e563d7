"""The console's list of problems: each button changes what it says, in the name of the admin."""

from html import escape

import pytest

from accounts.services import create_group
from keys.models import ApiKey
from keys.services import issue_key
from providers.services import create_provider
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias
from rules.aliases.services import create_alias
from rules.lint.findings import find_problems
from rules.lint.fixes import Action, Fix
from rules.linter import Problem
from rules.models import Rule, RuleVersion
from rules.services import create_rule, update_rule
from telemetry.audit.models import AuditEntry
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
PAGE, FIX = "/admin/rules/rule/lint/", "/admin/rules/rule/lint/fix/"


def click(console, action: str, row_id: int):
    """Press the button, which the page has to offer."""
    page = console.get(PAGE).text
    assert f'value="{action}"><input type="hidden" name="id" value="{row_id}"' in page
    answer = console.post(FIX, {"action": action, "id": row_id})
    assert answer.status_code == 302
    return answer


def audited() -> tuple[str, str, int | None]:
    entry = AuditEntry.objects.latest("id")
    return entry.action, entry.resource, entry.resource_id


def findings_of(fix: Fix) -> list[Problem]:
    """The problems that a button with this fix is offered for."""
    return [finding.problem for finding in find_problems() if finding.fix == fix]


@pytest.mark.long
def test_a_button_solves_the_problem_that_it_stands_beside(console):
    provider = create_provider(name="east", format_name="openai", url="http://127.0.0.1:9/v1", models=["m.1"])
    rule = create_rule(name="idle", user_id=0, regex="nosuch")
    key = issue_key(owner=new_user(), name="k").key
    alias = create_alias(name="fast", targets=[TargetDraft(provider.pk, "m.1")])
    provider.enabled = False
    provider.save()
    for action, row, resource in (
        (Action.DISABLE_RULE, rule, "rules"), (Action.LOCK_KEY, key, "keys"), (Action.DISABLE_ALIAS, alias, "aliases"),
    ):  # fmt: skip
        assert len(findings_of(Fix(action, row.pk))) == 1
        assert click(console, action, row.pk).url == PAGE
        assert audited() == ("update", resource, row.pk)
        assert findings_of(Fix(action, row.pk)) == []
    assert not Rule.objects.get(pk=rule.pk).enabled
    assert not Alias.objects.get(pk=alias.pk).enabled
    assert ApiKey.objects.get(pk=key.pk).locked_time is not None
    assert RuleVersion.objects.of(rule.pk)[0].author_name.startswith("admin-")


@pytest.mark.long
@pytest.mark.parametrize("action", [Action.CREATE_GROUP_RULE, Action.CREATE_MODEL_RULE, Action.CREATE_ALIAS_RULE])
def test_a_button_prepares_one_rule_and_the_problem_stays_until_it_is_enabled(console, action):
    ann, provider = new_user(), create_provider(
        name="east", format_name="openai", url="http://127.0.0.1:9/v1", models=["m.1", "m.2"]
    )  # fmt: skip
    alias = create_alias(name="a.b-*", targets=[TargetDraft(provider.pk, "m.2")])
    create_rule(name="m.2", user_id=ann.pk, regex=r"m\.2")
    group = create_group(name="staff", member_ids=[ann.pk])
    row, name, regex = {
        Action.CREATE_GROUP_RULE: (group, "Group staff", ""),
        Action.CREATE_MODEL_RULE: (provider.models.get(name="m.1"), "Model east/m.1", r"m\.1"),
        Action.CREATE_ALIAS_RULE: (alias, "Alias a.b-*", r"a\.b\-.*"),
    }[action]
    fix = Fix(action, row.pk)
    answer = click(console, action, row.pk)
    rule = Rule.objects.get(name=name)
    assert (rule.enabled, rule.regex, answer.url) == (False, regex, f"/admin/rules/rule/{rule.pk}/change/")
    assert audited() == ("create", "rules", rule.pk)
    assert "is prepared. The rule is not enabled" in console.get(answer.url).text
    assert len(findings_of(fix)) == 1
    entries = AuditEntry.objects.count()
    again = click(console, action, row.pk)
    assert again.url == answer.url
    assert "was prepared before. The rule is not enabled" in console.get(again.url).text
    assert (Rule.objects.count(), AuditEntry.objects.count()) == (2, entries)
    update_rule(rule, enabled=True, **({} if rule.group_id else {"user_id": ann.pk}))
    assert findings_of(fix) == []


def test_a_prepared_rule_takes_a_name_that_is_free(console):
    group = create_group(name="staff")
    for name in ("Group staff", "Group staff 2"):
        create_rule(name=name, user_id=0)
    click(console, "createGroupRule", group.pk)
    assert Rule.objects.get(group=group).name == "Group staff 3"


def test_a_rule_that_denies_with_an_unreadable_pattern_is_opened_and_stays(console):
    rule = Rule.objects.create(name="no", effect="deny", regex="(", everyone="user")
    assert click(console, "openRule", rule.pk).url == f"/admin/rules/rule/{rule.pk}/change/"
    rule.refresh_from_db()
    assert rule.enabled


def test_each_problem_of_the_rules_has_a_button(console):
    provider = create_provider(name="east", format_name="openai", url="http://127.0.0.1:9/v1", models=["m.1", "m.2"])
    off = create_provider(name="off", format_name="openai", url="http://127.0.0.1:9/v1", models=["m.3"])
    owner = new_user()
    for name, regex in (("one", r"m\.1"), ("two", r"m\.2"), ("union of both", r"m.*"), ("unreachable", "nosuch")):
        create_rule(name=name, user_id=new_user().pk if name == "two" else 0, regex=regex)
    create_rule(name="without keys", user_id=owner.pk, provider_id=provider.pk)
    create_rule(name="no", user_id=0, regex="m.2|fast", effect="deny")
    create_rule(name="denied", user_id=0, regex="m.2")
    create_rule(name="of nobody", group_id=create_group(name="empty").pk)
    issue_key(owner=new_user(), name="idle", models=["x"])
    create_group(name="staff")
    create_alias(name="dead", targets=[TargetDraft(off.pk, "m.3")])
    create_alias(name="fast", targets=[TargetDraft(provider.pk, "m.1")])
    off.enabled = False
    off.save()
    findings = find_problems()
    assert {finding.problem for finding in findings} == set(Problem) - {Problem.DISABLED}
    page = console.get(PAGE).text
    for finding in findings:
        assert escape(finding.message) in page
        assert f'value="{finding.fix.action}"><input type="hidden" name="id" value="{finding.fix.id}"' in page


def test_what_cannot_be_done_is_said(console):
    answer = console.post(FIX, {"action": "disableRule", "id": 987654}, follow=True)
    assert "No rule with id 987654." in answer.text
    for wrong in ({"action": "x", "id": 1}, {"action": "disableRule", "id": "x"}, {}):
        assert console.post(FIX, wrong).status_code == 404
    assert console.get(FIX).status_code == 405


def test_a_click_from_another_site_changes_nothing(console):
    rule = create_rule(name="idle", user_id=0, regex="nosuch")
    console.handler.enforce_csrf_checks = True
    assert console.post(FIX, {"action": "disableRule", "id": rule.pk}).status_code == 403
    rule.refresh_from_db()
    assert rule.enabled
