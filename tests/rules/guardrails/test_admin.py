"""Guardrails in the console."""

import json
import re
from html import unescape

import pytest

from accounts.models import Group
from keys.services import delete_keys, issue_key
from rules.guardrails.models import Guardrail
from rules.guardrails.services import create_guardrail
from telemetry.models import LogEntry
from tests.support.management import new_user

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
FIELDS = {
    "name": "No cobalt",
    "enabled": "on",
    "position": "5",
    "direction": "both",
    "action": "block",
    "type": "words",
    "parameters": json.dumps({"words": ["cobalt"]}),
    "fail_mode": "open",
    "sample_days": "7",
    "applies_to": json.dumps({"everyone": True}),
}


@pytest.mark.long
def test_a_guardrail_is_made_changed_and_deleted(console):
    response = console.post("/admin/rules/guardrail/add/", FIELDS)
    assert response.status_code == 302, response.context["adminform"].form.errors
    guardrail = Guardrail.objects.get(name="No cobalt")
    assert (guardrail.position, guardrail.parameters) == (5, {"words": ["cobalt"]})
    assert LogEntry.objects.filter(message__contains="guardrails").exists()
    page = console.get(f"/admin/rules/guardrail/{guardrail.pk}/change/")
    assert "cobalt" in unescape(page.text)
    changed = FIELDS | {"action": "redact", "_seen": page.context["adminform"].form.first_digest}
    response = console.post(f"/admin/rules/guardrail/{guardrail.pk}/change/", changed)
    assert response.status_code == 302, response.context["adminform"].form.errors
    guardrail.refresh_from_db()
    assert (guardrail.action, guardrail.applies_to) == ("redact", {"everyone": True})
    assert "everyone" in console.get("/admin/rules/guardrail/").text
    assert console.post(f"/admin/rules/guardrail/{guardrail.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Guardrail.objects.filter(name="No cobalt").exists()


@pytest.mark.parametrize(("type", "action"), [("words", "block"), ("injection", "monitor")])
def test_heuristics_only_record_unless_told(console, type, action):
    assert "prompt injection: only record" in console.get("/admin/rules/guardrail/add/").text
    parameters = FIELDS["parameters"] if type == "words" else "{}"
    values = FIELDS | {"type": type, "parameters": parameters}
    response = console.post("/admin/rules/guardrail/add/", values | {"action": ""})
    assert response.status_code == 302, response.context["adminform"].form.errors
    guardrail = Guardrail.objects.get(name="No cobalt")
    assert guardrail.action == action
    assert "prompt injection: only record" not in console.get(f"/admin/rules/guardrail/{guardrail.pk}/change/").text
    response = console.post("/admin/rules/guardrail/add/", values | {"name": "Other", "action": "block"})
    assert Guardrail.objects.get(name="Other").action == "block"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("parameters", "{", "JSON"),
        ("parameters", '{"words": 1}', "words"),
        ("parameters", "[]", "object"),
        ("applies_to", '{"groups": [99999999]}', "99999999"),
        ("applies_to", '{"teams": [1]}', "teams"),
        ("applies_to", "", "required"),
        ("position", "-1", "0"),
        ("name", "", "required"),
    ],
)
def test_what_is_wrong_is_named_beside_its_field(console, name, text, words):
    response = console.post("/admin/rules/guardrail/add/", FIELDS | {name: text})
    assert response.status_code == 200
    errors = response.context["adminform"].form.errors
    assert list(errors) == [name]
    assert words in str(errors[name])
    assert not Guardrail.objects.filter(name="No cobalt").exists()


@pytest.mark.long
def test_a_list_of_100_000_words_fits_into_the_form(console):
    words = [f"wörd-{number:06}" for number in range(100_000)]
    parameters = json.dumps({"words": words}, ensure_ascii=False)
    assert console.post("/admin/rules/guardrail/add/", FIELDS | {"parameters": parameters}).status_code == 302
    assert Guardrail.objects.get(name="No cobalt").parameters["words"] == words


def test_the_list_links_to_those_that_a_guardrail_is_for(console):
    users, group = [new_user() for _ in range(6)], Group.objects.create(name="crew")
    key = issue_key(owner=users[0], name="gone").key
    delete_keys([key])
    audience = {"users": [user.pk for user in users], "groups": [group.pk], "keys": [key.pk]}
    create_guardrail(name="No cobalt", type="words", parameters={"words": ["cobalt"]})
    Guardrail.objects.update(applies_to=audience)
    text = console.get("/admin/rules/guardrail/").text
    for row, path in ((users[0], "accounts/user"), (users[4], "accounts/user"), (group, "accounts/group")):
        assert re.search(rf'href="/admin/{path}/{row.pk}/change/"[^>]*>{row}</a>', text), row
    assert f"1 more; keys {key.pk}" in " ".join(text.split())
    assert f">{users[5]}</a>" not in text


@pytest.mark.parametrize("name", ["parameters", "applies_to"])
@pytest.mark.parametrize("text", [r'{"words": ["\u0000"]}', r'{"words": ["\ud800"]}', '{"a": 1e400}', "[" * 900, "[]"])
def test_json_that_cannot_be_stored_is_an_error_of_its_field(console, name, text):
    response = console.post("/admin/rules/guardrail/add/", FIELDS | {name: text})
    assert response.status_code == 200
    assert list(response.context["adminform"].form.errors) == [name]
    assert text in unescape(response.text)
    assert not Guardrail.objects.exists()
