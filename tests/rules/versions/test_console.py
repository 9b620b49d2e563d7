"""Versions of rules in the console: compared, restored, and found after the rule is deleted."""

from html import unescape

import pytest

from gateway_project.console.links import link_to
from rules.models import Rule, RuleVersion
from rules.services import create_rule, delete_rule, update_rule
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def test_versions_are_compared_in_words(console):
    ann = new_user(username="ann")
    rule = create_rule(name="r", user_id=0)
    update_rule(rule, user_id=ann.pk, effect="deny", regex="gpt.*")
    update_rule(rule, enabled=False)
    path = f"/admin/rules/rule/{rule.pk}/versions/"
    page = unescape(console.get(path).text)
    assert "For the user: everyone → <a " in page
    assert "Enabled: yes → no" in page
    context = console.get(f"{path}?from=3&to=1").context
    assert (context["before"].number, context["after"].number) == (1, 3)
    differences = {row.label: (row.before, row.after) for row in context["comparison"] if row.differs}
    assert differences == {
        "Effect": ("Allow", "Deny"), "Enabled": ("yes", "no"), "For the user": ("everyone", link_to(ann)),
        "Models": ("every model", "gpt.*"),
    }  # fmt: skip
    assert path in console.get(f"/admin/rules/rule/{rule.pk}/change/").text
    assert console.get("/admin/rules/rule/987654/versions/").status_code == 404


def test_a_button_restores_a_version_in_the_name_of_the_admin(console):
    rule = create_rule(name="r", user_id=0)
    update_rule(rule, name="s")
    path = f"/admin/rules/rule/{rule.pk}/versions/1/restore/"
    assert "becomes what it was" in console.get(path).text
    assert Rule.objects.get(pk=rule.pk).name == "s"
    assert console.post(path).status_code == 302
    assert Rule.objects.get(pk=rule.pk).name == "r"
    newest = RuleVersion.objects.of(rule.pk)[0]
    assert (newest.change, newest.author_name[:6]) == ("restore", "admin-")
    assert console.get(path.replace("/1/", "/9/")).status_code == 404


def test_a_deleted_rule_is_found_and_restored_or_says_why_not(console):
    rule = create_rule(name="r", user_id=0)
    rule_id = rule.pk
    delete_rule(rule)
    create_rule(name="r")
    listed = console.get("/admin/rules/rule/deleted/").text
    assert f"/admin/rules/rule/{rule_id}/versions/" in listed
    path = f"/admin/rules/rule/{rule_id}/versions/2/restore/"
    answer = console.post(path, follow=True)
    assert "A rule named 'r' exists already." in unescape(answer.text)
    Rule.objects.all().delete()
    assert console.post(path).status_code == 302
    assert Rule.objects.get().pk == rule_id
