"""Guardrails over HTTP."""

import itertools

import pytest

from accounts.services import create_group, delete_group, delete_user
from keys.services import delete_keys, issue_key
from rules.aliases.services import create_alias, delete_alias, update_alias
from rules.guardrails import services
from rules.guardrails.models import Guardrail
from rules.services import create_rule, delete_rule
from telemetry.models import LogEntry
from tests.support.hostile import try_wrong
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

_numbers = itertools.count()
WORDS = {"type": "words", "parameters": {"words": ["cobalt"]}}


def make(client, **attributes) -> Guardrail:
    attributes_sent = {"name": f"guardrail-{next(_numbers)}", **WORDS} | attributes
    response = client.post("/guardrails/", **attributes_sent)
    assert response.status_code == 201, response.text
    return Guardrail.objects.get(pk=response.headers["GuardrailId"])


def place(response) -> str:
    """The place of the mistake that the response names."""
    (error,) = response.json()["errors"]
    return error["source"]["pointer"].removeprefix("/data/attributes/")


def row_of(client, guardrail) -> dict:
    (row,) = client.rows(f"/guardrails/?id={guardrail.pk}")
    return row


def test_a_list_of_100_000_words_fits(admin):
    words = [f"word-{number:06}" for number in range(100_000)]
    guardrail = make(admin, parameters={"words": words})
    assert guardrail.parameters["words"] == words
    assert admin.post("/groups/", name="x", description="x" * 1024 * 1024).status_code == 413


def test_heuristics_only_record_unless_told(admin):
    assert make(admin).action == "block"
    injection = {"type": "injection", "parameters": {}}
    guardrail = make(admin, **injection)
    assert guardrail.action == "monitor"
    assert make(admin, action="block", **injection).action == "block"
    row = row_of(admin, guardrail)
    assert admin.patch(f"/guardrails/{guardrail.pk}/", **WORDS).status_code == 200, row
    assert row_of(admin, guardrail)["action"] == "monitor"


def test_a_guardrail_is_listed_as_it_was_sent(admin, ann):
    group, key = create_group(name=f"team-{next(_numbers)}"), issue_key(owner=ann, name="laptop").key
    rule = create_rule(name=f"rule-{next(_numbers)}", user_id=ann.pk)
    alias = create_alias(name=f"alias-{next(_numbers)}")
    attributes_sent = {
        "name": f"all {next(_numbers)}",
        "description": "why",
        "enabled": False,
        "position": 7,
        "direction": "response",
        "action": "redact",
        "type": "pattern",
        "parameters": {"patterns": ["project-[0-9]+"], "ignoreCase": False},
        "failMode": "closed",
        "samples": True,
        "sampleDays": 30,
        "appliesTo": {
            "groups": [group.pk], "users": [ann.pk], "rules": [rule.pk], "keys": [key.pk], "aliases": [alias.name],
        },
    }  # fmt: skip
    guardrail = make(admin, **attributes_sent)
    row = row_of(admin, guardrail)
    assert row == attributes_sent | {"id": guardrail.pk}
    assert admin.get(f"/guardrails/{guardrail.pk}/", flat=True).json() == {"data": row}
    # What lists show can be attributes_sent back.
    assert (
        admin.patch(f"/guardrails/{guardrail.pk}/", **{name: row[name] for name in attributes_sent}).status_code == 200
    )
    assert row_of(admin, guardrail) == row


def test_what_is_not_sent_has_a_default(admin):
    row = row_of(admin, make(admin))
    assert {name: row[name] for name in row if name not in ("id", "name", "type", "parameters")} == {
        "description": "", "enabled": True, "position": 100, "direction": "both", "action": "block",
        "failMode": "open", "samples": False, "sampleDays": 7, "appliesTo": {"everyone": True},
    }  # fmt: skip


def test_a_change_leaves_what_it_does_not_name_and_is_in_the_log(admin):
    guardrail = make(admin, action="redact", position=3)
    assert admin.patch(f"/guardrails/{guardrail.pk}/", enabled=False).status_code == 200
    row = row_of(admin, guardrail)
    assert (row["action"], row["position"], row["enabled"]) == ("redact", 3, False)
    assert row["parameters"] == WORDS["parameters"]
    entry = LogEntry.objects.filter(message__contains="guardrails").latest("id")
    assert str(guardrail.pk) in entry.message
    assert admin.delete(f"/guardrails/{guardrail.pk}/").status_code in (200, 204)
    assert not Guardrail.objects.filter(pk=guardrail.pk).exists()


def test_lists_are_in_order_of_position_and_have_filters(admin):
    prefix = f"filtered-{next(_numbers)}"
    late = make(admin, name=f"{prefix}-late", position=900, action="monitor")
    early = make(admin, name=f"{prefix}-early", position=1, direction="request", enabled=False)
    for query, expected in {
        "": [early, late], "&enabled=false": [early], "&action=monitor": [late], "&direction=request": [early],
        "&type=words": [early, late], "&type=pii": [], f"&name={late.name}": [late],
    }.items():  # fmt: skip
        rows = admin.rows(f"/guardrails/?nameContains={prefix}{query}")
        assert [row["id"] for row in rows] == [guardrail.pk for guardrail in expected], query


@pytest.mark.parametrize("query", ["type=regex", "action=shout", "direction=sideways"])
def test_a_filter_that_no_guardrail_can_match_is_refused(admin, query):
    refused(admin.get(f"/guardrails/?{query}"), 400, "ValidationError", query.partition("=")[0], "must be one of")


def test_a_schema_may_name_nul_in_its_patterns(admin):
    schema = {"type": "string", "pattern": r"^[^\u0000]*$"}
    make(admin, type="json", direction="response", parameters={"schema": schema})


def test_a_key_may_be_named_by_its_public_id(admin, ann):
    key = issue_key(owner=ann, name=f"key-{next(_numbers)}").key
    guardrail = make(admin, appliesTo={"keys": [key.public_id, str(key.pk)]})
    assert row_of(admin, guardrail)["appliesTo"] == {"keys": [key.pk]}


WRONG = [
    ({"name": ""}, "name"),
    ({"name": "x" * 101}, "name"),
    ({"type": "magic"}, "type"),
    ({"type": None}, "type"),
    ({"action": "shout"}, "action"),
    ({"direction": "sideways"}, "direction"),
    ({"failMode": "ajar"}, "failMode"),
    ({"samples": "yes"}, "samples"),
    ({"sampleDays": 0}, "sampleDays"),
    ({"sampleDays": 366}, "sampleDays"),
    ({"position": -1}, "position"),
    ({"position": 1.5}, "position"),
    ({"position": 10**7}, "position"),
    ({"parameters": []}, "parameters"),
    ({"parameters": None}, "parameters"),
    ({"type": "pattern", "parameters": {}}, "parameters/patterns"),
    ({"type": "pattern", "parameters": {"patterns": ["("]}}, "parameters/patterns/0"),
    ({"type": "topic", "parameters": {"allowedLanguages": ["xx"]}}, "parameters/allowedLanguages/0"),
    ({"type": "topic", "parameters": {"allowedLanguages": "en"}}, "parameters/allowedLanguages"),
    ({"appliesTo": None}, "appliesTo"),
    ({"appliesTo": []}, "appliesTo"),
    ({"appliesTo": {}}, "appliesTo"),
    ({"appliesTo": {"groups": []}}, "appliesTo"),
    ({"appliesTo": {"everyone": False}}, "appliesTo"),
    ({"appliesTo": {"everyone": 1}}, "appliesTo/everyone"),
    ({"appliesTo": {"everyone": True, "users": [1]}}, "appliesTo/everyone"),
    ({"appliesTo": {"teams": [1]}}, "appliesTo/teams"),
    ({"appliesTo": {"groups": 1}}, "appliesTo/groups"),
    ({"appliesTo": {"groups": ["a"]}}, "appliesTo/groups/0"),
    ({"appliesTo": {"groups": [True]}}, "appliesTo/groups/0"),
    ({"appliesTo": {"groups": [0]}}, "appliesTo/groups/0"),
    ({"appliesTo": {"groups": [10**30]}}, "appliesTo/groups/0"),
    ({"appliesTo": {"groups": [10**9]}}, "appliesTo/groups"),
    ({"appliesTo": {"users": [10**9]}}, "appliesTo/users"),
    ({"appliesTo": {"rules": [10**9]}}, "appliesTo/rules"),
    ({"appliesTo": {"keys": [10**9]}}, "appliesTo/keys"),
    ({"appliesTo": {"keys": ["nosuchkey"]}}, "appliesTo/keys"),
    ({"appliesTo": {"keys": ["a b"]}}, "appliesTo/keys/0"),
    ({"appliesTo": {"aliases": ["nosuch"]}}, "appliesTo/aliases"),
    ({"appliesTo": {"aliases": [""]}}, "appliesTo/aliases/0"),
    ({"appliesTo": {"aliases": ["a\u0000"]}}, "appliesTo/aliases/0"),
    ({"appliesTo": {"aliases": [1]}}, "appliesTo/aliases/0"),
    ({"type": "json", "parameters": {}, "direction": "request"}, "direction"),
    ({"type": "http", "parameters": {}}, "parameters/url"),
    ({"type": "words", "parameters": {"words": ["a", "b\0"]}}, "parameters"),
    ({"type": "json", "direction": "response", "parameters": {"schema": {"const": 10**30}}}, "parameters/schema"),
    ({"type": "json", "direction": "response", "parameters": {"schema": {"const": "\0"}}}, "parameters"),
    ({"type": "json", "direction": "response", "parameters": {"schema": {"\0": {}}}}, "parameters"),
    ({"color": "red"}, "color"),
]


@pytest.mark.parametrize(("attributes", "field"), WRONG)
def test_what_is_wrong_is_refused_with_its_place(admin, attributes, field):
    name = f"wrong-{next(_numbers)}"
    response = admin.post("/guardrails/", **{"name": name, **WORDS} | attributes)
    refused(response, 400, "ValidationError")
    assert place(response) == field
    assert not Guardrail.objects.filter(name=name).exists()


def test_a_name_and_a_type_are_needed(admin):
    response = admin.post("/guardrails/", type="words", parameters={"words": ["a"]})
    assert place(response) == "name"
    assert place(admin.post("/guardrails/", name=f"x-{next(_numbers)}")) == "type"


def test_a_name_is_taken_once(admin):
    guardrail, other = make(admin), make(admin)
    refused(admin.post("/guardrails/", name=guardrail.name, **WORDS), 409, "Conflict")
    refused(admin.patch(f"/guardrails/{other.pk}/", name=guardrail.name), 409, "Conflict")


def test_a_change_of_the_type_needs_parameters_of_that_type(admin):
    guardrail = make(admin)
    response = admin.patch(f"/guardrails/{guardrail.pk}/", type="pattern")
    refused(response, 400, "ValidationError")
    assert place(response).startswith("parameters")
    changed = admin.patch(f"/guardrails/{guardrail.pk}/", type="pattern", parameters={"patterns": ["a+"]})
    assert changed.status_code == 200


def test_hostile_values_are_refused_and_never_an_error_of_the_server(admin):
    names = ("name", "enabled", "position", "direction", "action", "type", "parameters", "failMode", "appliesTo")

    def create(**attributes):
        return admin.post("/guardrails/", **attributes)

    try_wrong(create, names, lambda: {"name": f"hostile-{next(_numbers)}", **WORDS})


def test_what_was_deleted_stays_in_the_audience_and_can_be_sent_back(admin):
    user, group = new_user(), create_group(name=f"gone-{next(_numbers)}")
    rule, alias = create_rule(name=f"gone-{next(_numbers)}", user_id=user.pk), create_alias(name=f"g-{next(_numbers)}")
    key = issue_key(owner=user, name="gone").key
    audience = {
        "groups": [group.pk], "users": [user.pk], "rules": [rule.pk], "keys": [key.pk], "aliases": [alias.name],
    }  # fmt: skip
    guardrail = make(admin, appliesTo=audience)
    delete_rule(rule)
    delete_alias(alias)
    delete_keys([key])
    delete_group(group)
    delete_user(user)
    assert row_of(admin, guardrail)["appliesTo"] == audience
    assert admin.patch(f"/guardrails/{guardrail.pk}/", appliesTo=audience).status_code == 200
    other = {**audience, "groups": [*audience["groups"], 10**9]}
    assert place(admin.patch(f"/guardrails/{guardrail.pk}/", appliesTo=other)) == "appliesTo/groups"


def test_a_guardrail_of_an_alias_follows_its_name(admin):
    alias = create_alias(name=f"before-{next(_numbers)}")
    guardrail = make(admin, appliesTo={"aliases": [alias.name]})
    update_alias(alias, name=f"after-{next(_numbers)}")
    assert row_of(admin, guardrail)["appliesTo"] == {"aliases": [alias.name]}


def test_who_may_read_and_who_may_change(admin, nobody):
    guardrail = make(admin)
    reader, writer = nobody.as_user(new_user("rules.view")), nobody.as_user(new_user("guardrails.modify"))
    stranger = nobody.as_user(new_user())
    assert row_of(reader, guardrail)["id"] == guardrail.pk
    refused(reader.patch(f"/guardrails/{guardrail.pk}/", enabled=False), 403, "PermissionDenied")
    assert row_of(writer, guardrail)["id"] == guardrail.pk
    assert writer.patch(f"/guardrails/{guardrail.pk}/", enabled=False).status_code == 200
    refused(stranger.get("/guardrails/"), 403, "PermissionDenied")


def test_there_are_at_most_so_many(admin, monkeypatch):
    make(admin)
    monkeypatch.setattr(services, "MAX_GUARDRAILS", 1)
    refused(admin.post("/guardrails/", name=f"over-{next(_numbers)}", **WORDS), 409, "Conflict", "maximum")
