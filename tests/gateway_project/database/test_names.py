"""Names: one form of each, compared in any case, and nothing in them that nobody sees."""

import unicodedata

import pytest

from accounts.models import Group, Role
from accounts.services import create_group
from gateway_project.database.names import is_clear, name_key
from keys.models import ApiKey
from providers.services import create_provider
from rules.models import Rule
from rules.services import create_rule
from tests.support.management import PASSWORD, new_admin, new_user, refused

COMPOSED, APART = "café", "cafe\u0301"
RESOURCES = {"groups": Group, "roles": Role, "rules": Rule, "keys": ApiKey}
IN_ANY_ALPHABET = [resource for resource in RESOURCES if resource != "roles"]  # those take letters of ASCII alone


@pytest.mark.parametrize(
    "name",
    [" x", "x ", "a\nb", "a\u200bb", "\u3164", "a\u115fb", "\u1160", "\uffa0", "\u2800", "a\u034fb", "a\u17b4"]
    + ["\ufe0f", "a\ufe0f", "a\U000e0100", "\u180b", "a b\u00ad", "\U0001d159"],
    ids=ascii,
)
def test_a_name_with_something_that_nobody_sees_is_not_clear(name):
    assert not is_clear(name)


@pytest.mark.parametrize(
    "name", ["a b", COMPOSED, APART, "葛\U000e0100城", "❤\ufe0f", "Σίσυφος", "한글", "नमस्ते", "⠓⠊"], ids=ascii
)
def test_names_of_all_scripts_are_clear(name):
    assert is_clear(name)


@pytest.mark.parametrize(
    ("one", "other"), [("Émile", "e\u0301MILE"), ("ß", "SS"), ("ﬁ", "FI"), ("ΐ", "Ϊ́"), ("Ａ", "a")]
)
def test_names_that_differ_in_case_or_form_have_one_key(one, other):
    assert name_key(one) == name_key(other)


def test_a_key_is_its_own_key():
    some = map(chr, range(0x250, 0x2100))
    assert all(name_key(name_key(one)) == name_key(one) for one in some if unicodedata.category(one)[0] in "LNM")


@pytest.mark.parametrize("resource", IN_ANY_ALPHABET)
def test_a_name_is_the_same_however_it_is_put_together(admin, resource):
    assert admin.post(f"/{resource}/", name=APART).status_code == 201
    refused(admin.post(f"/{resource}/", name=COMPOSED), 409, "Conflict", COMPOSED)
    assert RESOURCES[resource].objects.filter(name=APART).get().name == COMPOSED
    refused(admin.post(f"/{resource}/", name="\u3164"), 400, "ValidationError", "name", "must be visible")


def test_a_row_is_found_by_its_name_however_that_is_put_together(admin):
    for resource in ("groups", "rules"):
        admin.post(f"/{resource}/", name=COMPOSED)
        assert len(admin.rows(f"/{resource}/?name=cafe%CC%81")) == 1
    admin.post("/keys/", name=COMPOSED)
    assert len(admin.rows("/keys/?nameContains=fe%CC%81")) == 1
    assert admin.patch("/keys/", name=APART, newName="other").status_code == 200


def test_a_name_that_is_not_checked_is_stored_in_its_one_form(db):
    key = ApiKey.objects.create(name=APART, owner=new_user(), public_id="x", digest=b"")
    assert ApiKey.objects.values_list("name", flat=True).get(pk=key.pk) == COMPOSED


def test_a_part_of_a_name_is_found_in_any_case(admin):
    admin.post("/keys/", name="Σίσυφος Ärger 100%")
    admin.post("/prices/", model="größe-*", currency="USD", input="1", output="2")
    for part in ("ÄRGER", "ärger", "a\u0308rger", "ΣΊΣΥΦΟΣ", "100%25"):
        assert len(admin.rows(f"/keys/?nameContains={part}")) == 1, part
    for part in ("arger", "_", "%25_"):
        assert admin.rows(f"/keys/?nameContains={part}") == [], part
    assert len(admin.rows("/prices/?modelContains=GRÖ")) == 1


@pytest.mark.parametrize(
    ("table", "part"),
    [("rules/rule", "ÉQUIPE"), ("accounts/group", "équipe"), ("accounts/user", "ÄRZTE"), ("providers/provider", "süD")],
)
def test_the_console_finds_names_in_any_case(db, client, table, part):
    people = create_group(name="Équipe", member_ids=[new_user(display_name="Ärzte").pk])
    create_rule(name="for them", group_id=people.pk)
    create_provider(name="SÜD", format_name="openai", url="http://127.0.0.1:9/v1")
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})
    assert len(client.get(f"/admin/{table}/", {"q": part}).context["cl"].result_list) == 1
