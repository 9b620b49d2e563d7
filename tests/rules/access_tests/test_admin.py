"""Access tests in the console, and a reason to break them."""

from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.html import strip_tags

from rules.access_tests.documents import write_document
from rules.access_tests.models import AccessTest
from rules.models import Rule
from rules.services import create_rule, update_rule
from telemetry.audit.models import AuditEntry
from tests.support.console.forms import fields_of

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def sent_back(page, **changes):
    """The form of a page as a browser sends it, with these changes."""
    buttons = ("_save", "_addanother", "_continue")
    return {name: values for name, values in fields_of(page.text).items() if name not in buttons} | changes


@pytest.mark.long
def test_a_test_is_made_changed_and_deleted(console, scene):
    fields = {"name": "Mini", "user": scene.ann.pk, "model": "gpt-5-mini", "expected": "allowed"}
    response = console.post("/admin/rules/accesstest/add/", fields)
    assert response.status_code == 302, response.context["adminform"].form.errors
    test = AccessTest.objects.get(name="Mini")
    path = f"/admin/rules/accesstest/{test.pk}/change/"
    page = console.get(path)
    assert "The test holds. Rule Ann allows it." in unescape(page.text)
    changed = fields | {"expected": "denied", "_seen": page.context["adminform"].form.first_digest}
    response = console.post(path, changed)
    assert response.status_code == 302, response.context["adminform"].form.errors
    assert "The test fails." in console.get(path).text
    page = strip_tags(console.get("/admin/rules/accesstest/").text)
    assert all(words in page for words in ("Fails", "Holds", "user ann", "group interns"))
    response = console.post("/admin/rules/accesstest/add/", fields | {"name": "x", "group": scene.interns.pk})
    assert "exactly one" in unescape(response.text)
    assert console.post(f"/admin/rules/accesstest/{test.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not AccessTest.objects.filter(name="Mini").exists()


@pytest.mark.long
def test_a_form_that_breaks_a_test_asks_for_a_reason(console, scene):
    path = f"/admin/rules/rule/{scene.rule.pk}/change/"
    fields = sent_back(console.get(path), regex="o3")
    page = console.post(path, fields)
    assert page.status_code == 200
    assert "breaks access tests" in page.text
    assert f"/admin/rules/accesstest/{scene.allowed.pk}/change/" in page.text
    assert 'name="override_reason"' in page.text
    assert Rule.objects.get().regex == "gpt-5.*"
    page = console.post(path, fields | {"override_reason": "x" * 501})
    assert "printable characters" in page.text
    assert console.post(path, fields | {"override_reason": "Agreed."}).status_code == 302
    assert Rule.objects.get().regex == "o3"
    entry = AuditEntry.objects.get(action="override")
    assert (entry.message.endswith("Reason: Agreed."), entry.actor != "") == (True, True)


@pytest.mark.parametrize("action", ["delete", "disable", "selected", "restore", "lint"])
def test_every_other_page_asks_too_and_does_it_for_a_reason(console, scene, action):
    pk = scene.rule.pk
    path, fields = {
        "delete": (f"/admin/rules/rule/{pk}/delete/", {"post": "yes"}),
        "disable": (f"/admin/rules/rule/{pk}/disable/", {}),
        "selected": ("/admin/rules/rule/", {"action": "delete_selected", "_selected_action": [pk], "post": "yes"}),
        "restore": (f"/admin/rules/rule/{pk}/versions/1/restore/", {}),
        "lint": ("/admin/rules/rule/lint/fix/", {"action": "disableRule", "id": pk}),
    }[action]
    if action == "restore":
        AccessTest.objects.all().delete()
        Rule.objects.filter(pk=pk).update(regex="")
        update_rule(scene.rule, regex="o3")
        AccessTest.objects.create(name="o3", user=scene.ann, model="o3", expected="denied")
        AccessTest.objects.create(name="Ann may not", user=scene.ann, model="gpt-5", expected="denied")
    page = console.post(path, fields)
    assert page.status_code == 409, page.text[:500]
    assert "Nothing was saved." in page.text
    again = sent_back(page, override_reason="Agreed.")
    assert {name: value for name, value in again.items() if name != "override_reason"}.keys() == fields.keys()
    assert console.post(path, again).status_code == 302
    rule = Rule.objects.filter(pk=pk).first()
    assert rule is None or not rule.enabled or rule.regex == "gpt-5.*"
    assert AuditEntry.objects.get(action="override").message.endswith("Agreed.")


def test_a_bulk_deletion_that_breaks_a_test_deletes_nothing(console, scene):
    harmless = create_rule(name="harmless", user_id=0, regex="nothing", enabled=False)
    Rule.objects.filter(pk=harmless.pk).update(position=1)  # the first of the list
    selected = [harmless.pk, scene.rule.pk]
    fields = {"action": "delete_selected", "_selected_action": selected, "post": "yes"}
    page = console.post("/admin/rules/rule/", fields)
    assert (page.status_code, "Nothing was saved." in page.text) == (409, True)
    assert Rule.objects.filter(pk__in=selected).count() == 2
    assert not AuditEntry.objects.filter(action="destroy").exists()
    assert console.post("/admin/rules/rule/", sent_back(page, override_reason="Agreed.")).status_code == 302
    assert not Rule.objects.exists()


def test_a_run_names_what_fails(console, scene):
    assert "2 of 2 access tests hold." in console.get("/admin/rules/accesstest/run/").text
    Rule.objects.update(enabled=False)
    page = unescape(console.get("/admin/rules/accesstest/run/").text)
    assert "1 of 2 access tests hold." in page
    assert "No rule allows ann to use the model gpt-5." in page


def test_an_export_is_imported_again(console, scene):
    assert console.get("/admin/rules/accesstest/export/").status_code == 405
    response = console.post("/admin/rules/accesstest/export/")
    text = response.content.decode()
    assert text == write_document(AccessTest.objects.shown())
    assert "access-tests.yaml" in response.headers["Content-Disposition"]
    AccessTest.objects.all().delete()
    path = "/admin/rules/accesstest/import/"
    assert "Import" in console.get(path).text
    assert console.post(path, {"file": SimpleUploadedFile("tests.yaml", text.encode())}).status_code == 302
    assert AccessTest.objects.count() == 2
    assert console.post(path, {"text": text.replace("gpt-5", "gpt-5-mini")}).status_code == 302
    assert set(AccessTest.objects.values_list("model", flat=True)) == {"gpt-5-mini"}
    assert "not YAML" in console.post(path, {"text": "a: ["}).text
    assert "one member" in console.post(path, {}).text
