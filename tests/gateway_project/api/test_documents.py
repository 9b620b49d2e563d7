"""What all resources share, tried on roles and features: bodies, forms of answers, errors; test_lists.py has lists."""

import json
import socket
from decimal import Decimal
from urllib.parse import urlsplit

import pytest

from accounts.models import Feature, Role
from accounts.services import create_group
from accounts.sso.services import create_identity_provider
from accounts.trusted_issuers.services import create_trusted_issuer
from accounts.viewsets import RoleViewSet
from gateway_project.api.routes import routes
from keys.services import issue_key
from licensing.services import set_limit
from providers.services import add_credential, add_model, set_price
from rules.access_tests.services import create_access_test
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from rules.guardrails.services import create_guardrail
from rules.services import create_rule
from tests.support.management import JSON_API, body, refused
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "an array": b"[]",
    "an array of documents": b'[{"data": {"attributes": {"name": "x"}}}]',
    "a text": b'"data"',
    "null": b"null",
    "a number": b"5",
    "no data": b"{}",
    "data null": b'{"data": null}',
    "data a list": b'{"data": [{"attributes": {"name": "x"}}]}',
    "data a text": b'{"data": "attributes"}',
    "attributes a list": b'{"data": {"attributes": [1]}}',
    "attributes null": b'{"data": {"attributes": null}}',
    "attributes a text": b'{"data": {"attributes": "name"}}',
    "no attributes": b'{"data": {}}',
    "relationships": b'{"data": {"attributes": {"name": "x"}, "relationships": {"x": 5}}}',
    "relationships null": b'{"data": {"attributes": {"name": "x"}, "relationships": null}}',
    "an attribute beside the attributes": b'{"data": {"attributes": {"name": "x"}, "features": []}}',
    "a member beside data": b'{"data": {"attributes": {"name": "x"}}, "name": "x"}',
    "what would be written along": b'{"data": {"attributes": {"name": "x"}}, "included": []}',
    "an id that is null": b'{"data": {"id": null, "attributes": {"name": "x"}}}',
    "a type that is no text": b'{"data": {"type": ["roles"], "attributes": {"name": "x"}}}',
    "an id that is a list": b'{"data": {"id": [5], "attributes": {"name": "x"}}}',
    "an id that is true": b'{"data": {"id": true, "attributes": {"name": "x"}}}',
    "100,000 brackets": b"[" * 100_000,
    "100,000 objects": b'{"data":' * 100_000,
    "100,000 brackets as a name": b'{"data": {"attributes": {"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}}",
    "not UTF-8": b'{"data": {"attributes": {"name": "\xff"}}}',
    "half a surrogate pair": b'{"data": {"attributes": {"name": "\\ud800"}}}',
    "NUL": b'{"data": {"attributes": {"name": "a\\u0000b"}}}',
    "a NUL byte": b'{"data": {"attributes": {"name": "a\x00b"}}}',
    "NaN": b'{"data": {"attributes": {"name": NaN}}}',
    "a number too large": b'{"data": {"attributes": {"name": 1e999}}}',
    "a number with 10,000 digits": b'{"data": {"attributes": {"name": ' + b"9" * 10_000 + b"}}}",
    "a name twice": b'{"data": {"attributes": {"name": "x", "name": "y"}}}',
    "an unknown attribute": b'{"data": {"attributes": {"name": "x", "isBuiltIn": true}}}',
    "the attribute's name in Python": b'{"data": {"attributes": {"name": "x", "built_in": 1}}}',
    "an attribute without a name": b'{"data": {"attributes": {"name": "x", "": 1}}}',
    "an attribute's name of 500,000 letters": b'{"data": {"attributes": {"' + b"A" * 500_000 + b'": 1}}}',
    "a UTF-16 body": '{"data": {"attributes": {"name": "x"}}}'.encode("utf-16"),
}


@pytest.mark.parametrize("media_type", [JSON_API, "application/json"])
def test_a_body_that_is_not_of_the_right_form_gets_400(admin, media_type):
    before = Role.objects.count()
    for what, request in HOSTILE.items():
        response = admin.send("POST", "/roles/", data=request, headers={"Content-Type": media_type})
        assert response.status_code == 400, f"{what}: {response.text}"
        refused(response, 400, "ValidationError")
    assert Role.objects.count() == before


@pytest.mark.parametrize("name", ["nmae", "na_me", "NAME"])
def test_an_unknown_attribute_is_refused_with_those_that_are_known(admin, name):
    message = refused(admin.post("/roles/", **{name: "x"}), 400, "ValidationError", name)
    assert "nknown attribute. Known: id, name, " in message


def test_an_unknown_parameter_is_refused_with_those_that_are_known(admin):
    refused(admin.get("/roles/?nmae=x"), 400, "ValidationError", "nmae: unknown query parameter. Known: ", "page[size]")


def test_a_name_that_is_taken_is_pointed_at(admin, ann):
    for path, attributes, name in (
        ("/roles/", {"name": "admin"}, "name"),
        ("/users/", {"userName": "ann", "password": "another long pass phrase"}, "userName"),
    ):
        error = admin.post(path, **attributes).json()["errors"][0]
        assert (error["status"], error["source"]) == ("409", {"pointer": f"/data/attributes/{name}"}), path


WRONG = [None, 5, -1, 1.5, 10**30, True, "", " ", "x" * 5000, "a\0b", [], [1], {}, {"id": 1}, [[1]], [None], [{}]]


@pytest.mark.parametrize("name", ["name", "features", "id"])
def test_a_wrong_value_is_refused_or_harmless_and_never_a_fault_of_ours(admin, name):
    feature = {"id": Feature.objects.first().pk}
    for number, value in enumerate([*WRONG, [{"id": "x"}], [{"id": None}], [{"id": 10**30}], [{"id": True}]]):
        response = admin.post("/roles/", **{"name": f"good{number}", "features": [feature], name: value})
        if response.status_code != 201:
            refused(response, 400, "ValidationError", name)


def test_an_unknown_id_in_a_body_gets_400_and_nothing_is_written(admin):
    refused(admin.post("/roles/", name="x", features=[{"id": 1}, {"id": 987654}]), 400, "ValidationError", "987654")
    assert not Role.objects.filter(name="x").exists()


def test_type_and_id_may_be_left_out_and_a_wrong_type_is_a_conflict(admin):
    document = body(name="one")
    assert admin.send("POST", "/roles/", json=document).status_code == 201
    document = body(name="two")
    document["data"]["type"] = "roles"
    assert admin.send("POST", "/roles/", json=document).status_code == 201
    document["data"]["type"] = "keys"
    refused(admin.send("POST", "/roles/", json=document), 409, "Conflict", "roles")


@pytest.mark.parametrize("media_type", [JSON_API, "application/json", "application/json; charset=utf-8"])
def test_bodies_come_as_json_api_or_as_json(admin, media_type):
    request = json.dumps(body(name="x")).encode()
    assert admin.send("POST", "/roles/", data=request, headers={"Content-Type": media_type}).status_code == 201


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_other_media_types_are_refused(admin, media_type):
    request = json.dumps(body(name="x")).encode()
    response = admin.send("POST", "/roles/", data=request, headers={"Content-Type": media_type})
    refused(response, 415, "UnsupportedMediaType", JSON_API)


def test_so_many_attributes_are_refused_before_they_are_looked_at(nobody):
    """Anybody may send them: naming each that is unknown took seconds."""
    attributes = {f"k{number}": 1 for number in range(101)}
    response = nobody.send("POST", "/auth/login", json={"data": {"attributes": attributes}})
    refused(response, 400, "ValidationError", "more than 100")


@promise("V-N6: a body over the limit is refused before it is read", target="413", suite="attack")
def test_a_body_over_the_limit_is_refused(admin):
    refused(admin.send("POST", "/roles/", data=b" " * (1024 * 1024 + 1)), 413, "PayloadTooLarge")


def test_a_body_may_come_in_chunks(world):
    """Over gunicorn: the test server of Django knows no chunks."""
    admin = _admin_of(world)
    parts = iter([b'{"data": {"attributes"', b': {"name": "' + world.name("role").encode() + b'"}}}'])
    response = admin.send("POST", "/roles/", data=parts, headers={"Content-Type": JSON_API})
    assert response.status_code == 201, response.text


def _admin_of(world):
    from tests.support.management import Client, new_admin

    return Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))


@pytest.mark.parametrize(
    ("accept", "flat"),
    [
        ("", False),
        ("*/*", False),
        (JSON_API, False),
        ("text/html", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("application/*", False),
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("application/json, text/plain, */*", True),
        ("application/json;q=0.5, */*", False),
        ("application/json;q=0", False),
        (f"{JSON_API}, application/json", False),
        (f"{JSON_API};q=0.1, application/json", True),
        ("application/json;q=nonsense", True),
        (",,;q=, /", False),
    ],
)
def test_the_form_of_answers_follows_accept(admin, accept, flat):
    response = admin.get("/features/?name=work", headers={"Accept": accept})
    row = Feature.objects.get(name="work")
    if flat:
        assert response.headers["Content-Type"] == "application/json"
        element = {"id": row.pk, "name": "work"}
    else:
        assert response.headers["Content-Type"] == "application/vnd.api+json; charset=utf-8"
        element = {"type": "features", "id": str(row.pk), "attributes": {"name": "work"}}
    meta = {"totalCount": 1, "pageNumber": 1, "pageSize": 1}
    assert response.json() == {"links": {"self": "/features/?name=work"}, "data": [element], "meta": meta}
    one = admin.get(f"/features/{row.pk}/", headers={"Accept": accept})
    assert one.json() == {"data": element}


def test_answers_are_not_for_caches(admin):
    assert admin.get("/roles/").headers["Cache-Control"] == "no-store"


def test_a_create_says_where_the_new_thing_is(admin, settings):
    response = admin.post("/roles/", name="x")
    role = Role.objects.get(name="x")
    assert (response.status_code, response.json()) == (201, {})
    assert response.headers["RoleId"] == str(role.pk)
    assert response.headers["Location"] == f"{settings.GATEWAY_BASE_URL}/roles/{role.pk}/"
    assert response.headers["Content-Location"] == response.headers["Location"]
    assert response.headers["Content-Type"] == "application/vnd.api+json; charset=utf-8"


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_trailing_slash_is_optional_and_no_redirect(admin, slash):
    assert admin.get(f"/roles{slash}").status_code == 200
    assert admin.get(f"/roles/{Role.objects.first().pk}{slash}").status_code == 200
    assert admin.post(f"/roles{slash}", name="x").status_code == 201


@pytest.mark.parametrize("way", ["path", "query", "data.id", "attributes.id", "attributes.id as a text"])
def test_an_update_says_in_any_of_four_ways_which_row_is_meant(admin, way):
    role = Role.objects.create(name="before")
    document = body(name="after")
    path = {"path": f"/roles/{role.pk}/", "query": f"/roles/?id={role.pk}"}.get(way, "/roles/")
    if way == "data.id":
        document["data"]["id"] = str(role.pk)
    if way.startswith("attributes.id"):
        document["data"]["attributes"]["id"] = str(role.pk) if way.endswith("text") else role.pk
    response = admin.send("PATCH", path, json=document)
    assert (response.status_code, response.json()) == (200, {})
    role.refresh_from_db()
    assert role.name == "after"


def test_an_update_that_says_two_different_things_is_a_conflict(admin):
    document = body(name="after")
    document["data"]["id"] = "1"
    refused(admin.send("PATCH", "/roles/2/", json=document), 409, "Conflict", "id")


def test_what_json_api_has_beside_the_attributes_may_be_there(admin):
    document = {**body(name="x"), "jsonapi": {"version": "1.1"}, "links": {}, "meta": {}}
    document["data"] |= {"type": "roles", "relationships": {}, "links": {}, "meta": {}}
    assert admin.send("POST", "/roles/", json=document).status_code == 201


@pytest.mark.parametrize("data", [{}, {"name": "after"}, {"atributes": {"name": "after"}}])
def test_a_change_without_attributes_is_refused_and_not_taken_for_none(admin, data):
    role = Role.objects.create(name="before")
    document = {"data": {"id": str(role.pk), **data}}
    refused(admin.send("PATCH", "/roles/", json=document), 400, "ValidationError", "attributes")


@pytest.mark.django_db(transaction=True)
def test_a_change_of_nothing_changes_nothing(admin, ann, first_provider):
    model = add_model(provider=first_provider, name="fast")
    credential = add_credential(provider=first_provider, name="second", credential="sk-1234567890")
    amounts = {"currency": "USD", "input": Decimal(1), "output": Decimal(1)}
    rows = {
        "users": ann,
        "roles": Role.objects.create(name="role"),
        "groups": create_group(name="team", member_ids=[ann.pk]),
        "providers": first_provider,
        f"providers/{first_provider.pk}/models": model,
        f"providers/{first_provider.pk}/credentials": credential,
        "prices": set_price(provider=first_provider, model="fast", **amounts),
        "keys": issue_key(owner=ann, name="key", provider=first_provider).key,
        "rules": create_rule(name="rule", user_id=ann.pk, provider_id=first_provider.pk),
        "aliases": create_alias(
            name="alias", targets=[TargetDraft(first_provider.pk, "fast", match={"userId": ann.pk})]
        ),
        "access-tests": create_access_test(name="access test", user_id=ann.pk, model="fast"),
        "guardrails": create_guardrail(name="guardrail", type="words", parameters={"words": ["cobalt"]}),
        "trusted-issuers": create_trusted_issuer(name="portal", issuer="https://login.example.org", audience="llm"),
        "identity-providers": create_identity_provider(
            name="Corp", slug="corp", issuer="https://login.example.com", client_id="gateway", client_secret="secret-1"
        ),
        "limits": set_limit(user=ann, measure="requests", window="day", amount=Decimal(1)),
    }
    updated = {route.path for route in routes() if route.operation == "update" and route.path.endswith("{id}/")}
    assert len(rows) == len(updated)
    for path, row in rows.items():
        before = admin.rows(f"/{path}/")
        assert admin.patch(f"/{path}/{row.pk}/").status_code == 200, path
        for flat in (False, True):
            shown = admin.get(f"/{path}/{row.pk}/", flat=flat).json()["data"]
            request = body(**shown) if flat else {"data": shown}
            assert admin.send("PATCH", f"/{path}/{row.pk}/", json=request).status_code == 200, path
        assert admin.rows(f"/{path}/") == before
    for path, name, value in (
        *(("users", "userName", "eve"), ("users", "isDeleted", True), ("rules", "userName", "eve")),
        *(("limits", "measure", "cost"), ("limits", "userId", 0), ("keys", "publicId", "other")),
        ("keys", "isExpired", True),  # who wants that says `expire`
        *(("providers", "formatName", "gemini"), ("prices", "host", "other.example.org")),
    ):
        refused(admin.patch(f"/{path}/{rows[path].pk}/", **{name: value}), 400, "ValidationError", name, "read-only")


def test_what_goes_while_it_is_changed_is_404(admin, monkeypatch):
    role, result = Role.objects.create(name="before"), RoleViewSet.get_object

    def gone(view):
        row = result(view)
        Role.objects.filter(pk=row.pk).delete()
        return row

    monkeypatch.setattr(RoleViewSet, "get_object", gone)
    refused(admin.patch(f"/roles/{role.pk}/", name="after"), 404, "NotFound")


@pytest.mark.parametrize("value", [None, [], {}, True, "x", -1, 10**30, 1.5, "1\0"])
def test_an_id_that_is_none_gets_400(admin, value):
    document = body(name="after")
    document["data"]["id"] = value
    refused(admin.send("PATCH", "/roles/", json=document), 400, "ValidationError", "id")
    refused(admin.send("PATCH", "/roles/", json=body(name="after", id=value)), 400, "ValidationError", "id")


def test_an_update_without_an_id_says_so(admin):
    refused(admin.patch("/roles/", name="after"), 400, "ValidationError", "id")


def test_a_body_shorter_than_it_says_is_refused(admin):
    address = urlsplit(admin.base)
    token = admin.session.headers["Authorization"]
    head = (
        f"POST /roles/ HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: {token}\r\n"
        f"Content-Type: {JSON_API}\r\nContent-Length: 50\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=10) as sock:
        sock.sendall(head.encode() + b'{"data": {}')
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400"), answer
