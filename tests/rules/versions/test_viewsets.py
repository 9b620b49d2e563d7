"""Versions of rules over HTTP: who changed what, and the way back."""

import pytest

from accounts.services import create_group
from keys.services import issue_key
from rules.models import Rule, RuleVersion
from telemetry.models import LogEntry
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


def new_rule(client, **attributes) -> str:
    response = client.post("/rules/", **({"name": "r"} | attributes))
    assert response.status_code == 201, response.text
    return response.headers["RuleId"]


def test_versions_name_who_changed_what(admin, nobody):
    rule, editor = new_rule(admin, userId=0), new_user("rules.modify", "rules.view")
    nobody.as_user(editor).patch(f"/rules/{rule}/", userId=None, groupId=0, effect="deny")
    newest, first = admin.rows(f"/rules/{rule}/versions/")
    assert (newest["version"], newest["change"], newest["authorId"]) == (2, "update", editor.pk)
    assert newest["authorName"] == editor.username
    assert newest["changes"] == [
        {"attribute": "effect", "before": "allow", "after": "deny"},
        {"attribute": "userId", "before": 0, "after": None},
        {"attribute": "groupId", "before": None, "after": 0},
    ]
    assert (first["version"], first["change"], first["changes"], first["rule"]["userId"]) == (1, "create", [], 0)
    assert first["timestamp"] < newest["timestamp"]
    assert newest["rule"] == {
        "name": "r", "description": "", "enabled": True, "effect": "deny", "position": 100, "regex": "",
        "userId": None, "groupId": 0, "providerId": None,
    }  # fmt: skip


def test_two_versions_are_compared(admin):
    rule = new_rule(admin, regex="a")
    admin.patch(f"/rules/{rule}/", regex="b")
    admin.patch(f"/rules/{rule}/", regex="a", enabled=False)
    newest, second, first = admin.rows(f"/rules/{rule}/versions/?compareTo=1")
    assert newest["changes"] == [{"attribute": "enabled", "before": True, "after": False}]
    assert second["changes"] == [{"attribute": "regex", "before": "a", "after": "b"}]
    assert first["changes"] == []
    refused(admin.get(f"/rules/{rule}/versions/?compareTo=9"), 404, "NotFound", "version 9")
    refused(admin.get(f"/rules/{rule}/versions/?compareTo=x"), 400, "ValidationError", "compareTo")


def test_a_group_that_is_deleted_is_named_with_who_deleted_it(admin):
    group = create_group(name="staff")
    rule = new_rule(admin, groupId=group.pk)
    author = admin.rows(f"/rules/{rule}/versions/")[0]["authorId"]
    assert admin.delete(f"/groups/{group.pk}/").status_code == 200
    newest = admin.rows(f"/rules/{rule}/versions/")[0]
    assert newest["changes"] == [{"attribute": "groupId", "before": group.pk, "after": None}]
    assert author is not None
    assert newest["authorId"] == author


def test_a_key_writes_in_the_name_of_its_owner(admin, nobody):
    owner = new_user("rules.modify", "rules.view")
    key = issue_key(owner=owner, name="automation", permissions=["rules.modify"]).text
    rule = new_rule(nobody.with_credential(key))
    assert admin.rows(f"/rules/{rule}/versions/")[0]["authorName"] == owner.username


def test_a_rule_is_restored_even_after_it_was_deleted(admin):
    rule = new_rule(admin, userId=0, regex="a")
    admin.patch(f"/rules/{rule}/", regex="b")
    response = admin.post(f"/rules/{rule}/restore/", version=1)
    assert (response.status_code, response.json()) == (200, {})
    assert Rule.objects.get(pk=rule).regex == "a"
    admin.delete(f"/rules/{rule}/")
    assert admin.rows(f"/rules/{rule}/versions/")[0]["change"] == "delete"
    assert admin.post(f"/rules/{rule}/restore/", version=2).status_code == 200
    assert admin.rows("/rules/?name=r")[0]["regex"] == "b"
    assert admin.rows(f"/rules/{rule}/versions/")[0]["change"] == "restore"
    entry = LogEntry.objects.order_by("id").last()
    assert f"restored rules {rule}" in entry.message
    assert '"regex":"b"' in entry.payload


def test_what_is_wrong_is_said_and_changes_nothing(admin):
    rule, number = new_rule(admin), RuleVersion.objects.count()
    refused(admin.post(f"/rules/{rule}/restore/", version=5), 404, "NotFound", "version 5")
    refused(admin.post("/rules/987654/restore/", version=1), 404, "NotFound", "987654")
    for wrong in ({"version": "1"}, {"version": 0}, {"version": None}, {}, {"version": 1, "name": "x"}):
        refused(admin.post(f"/rules/{rule}/restore/", **wrong), 400, "ValidationError")
    refused(admin.get("/rules/987654/versions/"), 404, "NotFound", "987654")
    refused(admin.get(f"/rules/{rule}/versions/?x=1"), 400, "ValidationError", "x")
    assert RuleVersion.objects.count() == number


def test_reading_versions_and_restoring_are_the_permissions_of_rules(admin, nobody):
    rule = new_rule(admin)
    viewer, modifier = nobody.as_user(new_user("rules.view")), nobody.as_user(new_user("rules.modify"))
    assert len(viewer.rows(f"/rules/{rule}/versions/")) == 1
    refused(viewer.post(f"/rules/{rule}/restore/", version=1), 403, "PermissionDenied", "rules.modify")
    refused(modifier.get(f"/rules/{rule}/versions/"), 403, "PermissionDenied", "rules.view")
    assert modifier.post(f"/rules/{rule}/restore/", version=1).status_code == 200
