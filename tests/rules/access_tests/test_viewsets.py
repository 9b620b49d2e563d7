"""Access tests over HTTP, and changes that break them."""

import json

import pytest

from accounts.services import add_member
from keys.services import issue_key
from rules.access_tests.models import AccessTest
from rules.models import Rule
from telemetry.audit.models import AuditEntry
from tests.support.hostile import try_wrong
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

HEADER = "X-Svc-Override"


@pytest.fixture
def scene(nobody, scene):
    """Behind a server in this process."""
    return scene


def body(**attributes) -> bytes:
    return json.dumps({"data": {"attributes": attributes}}).encode()


def failure(response) -> list[dict]:
    """The errors of a change that breaks tests."""
    assert (response.status_code, response.json()["exception"]) == (409, "AccessTestFailed"), response.text
    return response.json()["errors"]


def test_a_test_is_listed_with_its_state(admin, scene):
    key = issue_key(owner=scene.ann, name="laptop").key
    attributes = {
        "name": "Laptop", "description": "why", "userId": scene.ann.pk, "keyName": key.name, "groupId": None,
        "model": "gpt-5", "providerId": scene.provider.pk, "expected": "denied",
    }  # fmt: skip
    response = admin.post("/access-tests/", **attributes)
    assert response.status_code == 201, response.text
    (row,) = admin.rows("/access-tests/?name=Laptop")
    assert row == attributes | {
        "id": int(response.headers["AccessTestId"]),
        "userName": "ann",
        "groupName": None,
        "providerName": "openai",
        "holds": False,
        "because": "Rule Ann allows it. Provider openai may serve gpt-5.",
    }
    path = f"/access-tests/{row['id']}/"
    assert admin.get(path, flat=True).json()["data"] == row
    # What lists show can be sent back, whatever the state was then.
    assert admin.patch(path, **row | {"holds": True, "because": "once"}).status_code == 200
    assert admin.patch(path, expected="allowed", keyName=None).status_code == 200
    changed = admin.get(path, flat=True).json()["data"]
    assert (changed["holds"], changed["keyName"], changed["expected"]) == (True, None, "allowed")
    refused(admin.patch(path, userName="bob"), 400, "ValidationError", "userName")
    assert admin.delete(path).status_code == 200
    refused(admin.get(path), 404, "NotFound")
    assert [entry.action for entry in AuditEntry.objects.filter(resource="access-tests").order_by("pk")] == [
        "create", "update", "update", "destroy",
    ]  # fmt: skip


def test_the_list_is_filtered(admin, scene):
    for query, names in {
        f"userId={scene.ann.pk}": ["Ann may"],
        f"groupId={scene.interns.pk}": ["Interns may not"],
        "expected=denied": ["Interns may not"],
        "model=gpt-5": ["Ann may", "Interns may not"],
        "providerId=1": [],
        f"id={scene.allowed.pk}": ["Ann may"],
    }.items():
        assert [row["name"] for row in admin.rows(f"/access-tests/?{query}")] == names
    assert all(row["holds"] for row in admin.rows("/access-tests/"))


def test_a_change_that_breaks_tests_names_each(admin, scene):
    update = {"path": f"/rules/{scene.rule.pk}/", "method": "PATCH", "data": body(enabled=False)}
    (error,) = failure(admin.send(**update))
    assert error == {
        "status": "409",
        "code": "AccessTestFailed",
        "title": "The change breaks access tests",
        "detail": "The access test Ann may would fail. No rule allows ann to use the model gpt-5.",
        "meta": {"accessTestId": scene.allowed.pk, "name": "Ann may"},
    }
    errors = failure(admin.post("/rules/", name="no", effect="deny", userId=0, regex="gpt-5"))
    assert len(errors) == 1
    assert "Rule no denies it" in errors[0]["detail"]
    failure(admin.post("/rules/", name="all", userId=0))
    failure(admin.delete(f"/rules/{scene.rule.pk}/"))
    failure(admin.patch(f"/providers/{scene.provider.pk}/", enabled=False))
    failure(admin.delete(f"/users/?id={scene.ann.pk}"))
    scene.rule.refresh_from_db()
    assert scene.rule.enabled
    assert not AuditEntry.objects.filter(resource="rules").exists()


def test_a_reason_overrides_and_the_audit_keeps_it(admin, scene):
    update = {"path": f"/rules/{scene.rule.pk}/", "method": "PATCH", "data": body(enabled=False)}
    for reason in ("x" * 501, "a\tb"):
        refused(admin.send(**update, headers={HEADER: reason}), 400, "ValidationError", HEADER)
    assert Rule.objects.get().enabled
    reason = "Übergangsweise, bis März"
    response = admin.send(**update, headers={HEADER: reason.encode()})
    assert response.status_code == 200, response.text
    assert not Rule.objects.get().enabled
    change, override = (AuditEntry.objects.get(action=action) for action in ("update", "override"))
    assert change.request_id == override.request_id
    assert override.resource == "access-tests"
    assert json.loads(override.after) == {
        "reason": reason,
        "accessTests": [
            {
                "id": scene.allowed.pk,
                "name": "Ann may",
                "because": "No rule allows ann to use the model gpt-5.",
            }
        ],
    }
    assert not admin.rows("/access-tests/?name=Ann may")[0]["holds"]


def test_a_version_is_restored_through_the_tests(admin, scene):
    path = f"/rules/{scene.rule.pk}"
    assert admin.send("PATCH", f"{path}/", data=body(regex="o3"), headers={HEADER: "first"}).status_code == 200
    assert admin.patch(f"{path}/", regex="gpt-5").status_code == 200
    failure(admin.post(f"{path}/restore/", version=2))
    response = admin.send("POST", f"{path}/restore/", data=body(version=2), headers={HEADER: "again"})
    assert response.status_code == 200, response.text


def test_members_and_aliases_run_the_tests(admin, nobody, scene):
    banned = admin.post("/groups/", name="banned").headers["GroupId"]
    admin.post("/rules/", name="ban", effect="deny", groupId=banned)
    failure(admin.post(f"/groups/{banned}/members/", id=scene.ann.pk))
    failure(admin.post("/aliases/", name="gpt-5"))
    boss = new_user()
    add_member(scene.interns, user_id=boss.pk, is_admin=True)
    admin.post("/rules/", name="interns", groupId=scene.interns.pk, regex="gpt-5-mini")
    by_boss = new_user()
    admin.post("/access-tests/", name="Not him", userId=by_boss.pk, model="gpt-5-mini", expected="denied")
    # An admin of a group learns which tests fail, and nothing about rules.
    (error,) = failure(nobody.as_user(boss).post(f"/groups/{scene.interns.pk}/members/", id=by_boss.pk))
    assert error["detail"] == "The access test Not him would fail."


def test_who_may_read_and_who_may_write(nobody, scene):
    reader, writer = (nobody.as_user(new_user(*features)) for features in (["rules.view"], ["rules.modify"]))
    assert len(reader.rows("/access-tests/")) == 2
    refused(reader.post("/access-tests/", name="n", userId=1, model="m"), 403, "PermissionDenied", "rules.modify")
    refused(writer.get("/access-tests/"), 403, "PermissionDenied", "rules.view")
    response = writer.post("/access-tests/", name="n", userId=scene.ann.pk, model="m")
    assert response.status_code == 201
    assert AccessTest.objects.get(name="n").expected == "allowed"


def test_what_is_gone_may_use_nothing(admin, scene):
    test = admin.post("/access-tests/", name="t", groupId=scene.interns.pk, model="gpt-5").headers["AccessTestId"]
    assert admin.delete(f"/groups/{scene.interns.pk}/").status_code == 200
    row = admin.get(f"/access-tests/{test}/", flat=True).json()["data"]
    assert (row["groupId"], row["groupName"], row["holds"]) == (scene.interns.pk, None, False)
    assert admin.patch(f"/access-tests/{test}/", **row | {"expected": "denied"}).status_code == 200
    assert admin.rows(f"/access-tests/?id={test}")[0]["holds"]


@pytest.mark.exhaustive
def test_wrong_values_are_refused(admin, scene):
    names = ("name", "description", "userId", "groupId", "keyName", "model", "providerId", "expected", "holds")
    numbers = iter(range(10_000))

    def good() -> dict:
        return {"name": f"n{next(numbers)}", "userId": scene.ann.pk, "model": "m"}

    try_wrong(lambda **attributes: admin.post("/access-tests/", **attributes), names, good)
    try_wrong(lambda **attributes: admin.patch(f"/access-tests/{scene.allowed.pk}/", **attributes), names, dict)


FILE = "access-tests:\n- name: Ann\n  user: {user}\n  model: gpt-5\n  expected: allowed\n"


class TestFiles:
    def test_an_import_and_an_export(self, admin, scene):
        text = FILE.format(user=scene.ann.username)
        for expected in ((["Ann"], [], 0), ([], [], 1)):
            response = admin.post("/access-tests/import/", yaml=text)
            assert response.status_code == 200, response.text
            data = response.json()["data"]
            assert (data["created"], data["changed"], data["unchanged"]) == expected
        audited = AuditEntry.objects.filter(resource="access-tests", action="import")
        assert audited.count() == 2
        other = AccessTest.objects.create(name="Other", user=scene.ann, model="other", expected="denied")
        for path, headers in (("format=yaml", {}), ("", {"Accept": "application/yaml"})):
            exported = admin.get(f"/access-tests/?name=Ann&{path}", headers=headers)
            assert exported.headers["Content-Type"] == "application/yaml; charset=utf-8"
            assert exported.text == text
        assert other.name in admin.get("/access-tests/?format=yaml").text
        assert admin.get("/access-tests/?format=json").json()["meta"]["totalCount"] == 4

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[", "not YAML"),
            ("access-tests: 5", "a list"),
            ("access-tests: [{name: n, model: m}]", "expected"),
            (FILE.format(user="nobody-of-this-name"), "access-tests[0]"),
        ],
    )
    def test_what_is_wrong_is_named_and_nothing_is_stored(self, admin, scene, text, words):
        refused(admin.post("/access-tests/import/", yaml=text), 400, "ValidationError", words)
        refused(admin.post("/access-tests/import/", yaml=5), 400, "ValidationError", "yaml")
        refused(admin.get("/access-tests/?format=yaml&page[number]=1"), 400, "ValidationError", "page[number]")
        refused(admin.get("/access-tests/?format=xml"), 400, "ValidationError", "format")
        assert AccessTest.objects.count() == 2

    def test_who_may(self, nobody, scene):
        text = FILE.format(user=scene.ann.username)
        reader = nobody.as_user(new_user("rules.view"))
        assert reader.get("/access-tests/?format=yaml&model=none").text == "access-tests: []\n"
        refused(reader.post("/access-tests/import/", yaml=text), 403, "PermissionDenied")
        refused(nobody.as_user(new_user()).get("/access-tests/?format=yaml"), 403, "PermissionDenied")
        assert nobody.as_user(new_user("rules.modify")).post("/access-tests/import/", yaml=text).status_code == 200
