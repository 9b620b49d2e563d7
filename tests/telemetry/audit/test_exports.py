"""Whoever takes rows as a file is in the audit, with what they chose, whichever way they take it."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from django.core.management import call_command
from django.test import Client as Browser

from accounts.services import add_member, create_group
from gateway_project.api.audit import operator
from keys.secrets import generate_key
from rules.access_tests.services import create_access_test
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry
from tests.support.management import PASSWORD, Client, new_admin, new_user
from tests.support.user_pages import log_in

pytestmark = [pytest.mark.either_store, pytest.mark.django_db(transaction=True)]
LOG, YAML = "/admin/telemetry/logentry/", "application/yaml"


@pytest.fixture
def scene(nobody: Client, tmp_path) -> SimpleNamespace:
    """Root, at the console and with the API; boss, the admin of a group; and rows to export."""
    root, boss, group = new_admin(username="root"), new_user(username="boss"), create_group(name="search")
    add_member(group, user_id=boss.pk, is_admin=True)
    console = Browser()
    console.post("/admin/login/", {"username": "root", "password": PASSWORD})
    create_access_test(name="Boss", user_id=boss.pk, model="gpt-5", expected="denied")
    LogEntry.objects.create(entry_type="WorkRequest", username="boss", outcome="failed")
    return SimpleNamespace(
        console=console, api=nobody.as_user(root), boss=log_in(boss), own=nobody.as_user(boss), group=group.pk,
        file=tmp_path / "tests.yaml",
    )  # fmt: skip


class Export(NamedTuple):
    """A way to take rows, and what the audit has to say of it."""

    take: Callable[[SimpleNamespace], object]
    actor: str
    resource: str
    filters: dict[str, object]


BY_MODEL = {"by": "model", "format": "csv"}
EXPORTS = {
    "log as CSV": Export(
        lambda scene: scene.console.get(f"{LOG}export.csv?user=boss&outcome__exact=failed"),
        "root", "logs", {"user": "boss", "outcome__exact": "failed", "format": "csv"},
    ),
    "log as JSON lines": Export(
        lambda scene: scene.console.get(f"{LOG}export.jsonl?tag=a&tag=b"),
        "root", "logs", {"tag": ["a", "b"], "format": "jsonl"},
    ),
    "audit": Export(
        lambda scene: scene.console.post("/admin/telemetry/auditentry/export.jsonl?actor=boss"),
        "root", "audit", {"actor": "boss"},
    ),
    "statistics": Export(
        lambda scene: scene.console.get("/admin/statistics/?by=model&export=csv"),
        "root", "usage", {"by": "model", "export": "csv"},
    ),
    "access tests": Export(
        lambda scene: scene.console.post("/admin/rules/accesstest/export/"), "root", "access-tests", {}
    ),
    "usage by the API": Export(
        lambda scene: scene.api.get("/stats/usage/?by=model&format=csv"), "root", "usage", BY_MODEL
    ),
    "usage by its media type": Export(
        lambda scene: scene.api.get("/stats/usage/", headers={"Accept": "text/csv"}), "root", "usage", {}
    ),
    "own usage by the API": Export(
        lambda scene: scene.own.get("/stats/usage/?by=model&format=csv"), "boss", "usage", BY_MODEL
    ),
    "usage of a group": Export(
        lambda scene: scene.boss.get(f"/me/groups/{scene.group}/usage/?days=7&format=csv"),
        "boss", "usage", {"groupId": 0, "days": 7},
    ),
    "access tests by the API": Export(
        lambda scene: scene.api.get("/access-tests/?name=Boss&format=yaml"),
        "root", "access-tests", {"name": "Boss", "format": "yaml"},
    ),
    "access tests by their media type": Export(
        lambda scene: scene.api.get("/access-tests/", headers={"Accept": YAML}), "root", "access-tests", {}
    ),
    "audit by the command": Export(lambda scene: call_command("audit", "export"), operator(), "audit", {}),
    "access tests by the command": Export(
        lambda scene: call_command("access-tests", "--export"), operator(), "access-tests", {}
    ),
    "access tests by the command, to a file": Export(
        lambda scene: call_command("access-tests", "--export", str(scene.file)), operator(), "access-tests", {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_each_export_is_one_entry_with_its_actor_and_filters(scene, name):
    export = EXPORTS[name]
    response = export.take(scene)
    assert response is None or response.status_code == 200, response
    entry = AuditEntry.objects.get(action="export")
    filters = {**export.filters, "groupId": scene.group} if "groupId" in export.filters else export.filters
    assert (entry.actor, entry.resource, json.loads(entry.after)) == (export.actor, export.resource, filters)
    assert f"{export.actor} exported {export.resource}" in entry.message


def test_a_key_that_was_searched_for_is_in_no_entry(scene):
    key = generate_key()
    assert scene.console.get(f"{LOG}export.csv?q={key.text}&user=svc_deployment").status_code == 200
    (audited,) = AuditEntry.objects.filter(action="export").values_list("after", flat=True)
    assert json.loads(audited) == {"q": key.public_id, "user": "svc_deployment", "format": "csv"}
    assert not LogEntry.objects.filter(payload__contains=key.text).exists()


@pytest.mark.parametrize(
    ("path", "status"),
    [("/stats/usage/?by=nothing&format=csv", 400), ("/access-tests/?format=yaml&page[size]=1", 400)],
)
def test_an_export_that_is_refused_is_none(scene, path, status):
    assert scene.api.get(path).status_code == status
    assert not AuditEntry.objects.filter(action="export").exists()


@pytest.mark.parametrize("path", ["/stats/usage/?by=model", "/access-tests/"])
def test_a_list_is_no_export(scene, path):
    assert scene.api.get(path).status_code == 200
    assert not AuditEntry.objects.filter(action="export").exists()
