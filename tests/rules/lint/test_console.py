"""The console's list of problems: each button changes what it says, in the name of the admin."""

from html import unescape

import pytest

from accounts.services import create_group
from keys.models import ApiKey
from keys.services import issue_key
from providers.services import create_provider
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias
from rules.aliases.services import create_alias
from rules.models import Rule, RuleVersion
from rules.services import create_rule
from telemetry.audit.models import AuditEntry
from tests.support.management import new_user

pytestmark = pytest.mark.django_db
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


def test_each_button_does_what_it_says(console):
    provider = create_provider(name="east", format_name="openai", url="http://127.0.0.1:9/v1", models=["m.1"])
    rule = create_rule(name="idle", user_id=0, regex="nosuch")
    click(console, "disableRule", rule.pk)
    assert audited() == ("update", "rules", rule.pk)
    rule.refresh_from_db()
    assert not rule.enabled
    assert RuleVersion.objects.of(rule.pk)[0].author_name.startswith("admin-")
    key = issue_key(owner=new_user(), name="k").key
    click(console, "lockKey", key.pk)
    assert audited() == ("update", "keys", key.pk)
    assert ApiKey.objects.get(pk=key.pk).locked_time is not None
    group = create_group(name="staff")
    answer = click(console, "createGroupRule", group.pk)
    created = Rule.objects.get(group=group)
    assert (created.enabled, answer.url) == (False, f"/admin/rules/rule/{created.pk}/change/")
    assert audited() == ("create", "rules", created.pk)
    click(console, "createModelRule", provider.models.get().pk)
    created = Rule.objects.get(provider=provider)
    assert (created.enabled, created.regex, created.for_nobody) == (False, r"m\.1", True)
    alias = create_alias(name="dead", targets=[TargetDraft(provider.pk, "m.1")])
    provider.enabled = False
    provider.save()
    click(console, "disableAlias", alias.pk)
    assert not Alias.objects.get(pk=alias.pk).enabled
    assert audited() == ("update", "aliases", alias.pk)


def test_what_cannot_be_done_is_said(console):
    group = create_group(name="staff")
    create_rule(name="Group staff", user_id=0)
    answer = console.post(FIX, {"action": "createGroupRule", "id": group.pk}, follow=True)
    assert "A rule named 'Group staff' exists already." in unescape(answer.text)
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
