"""The OpenAPI document: valid, complete, and true in what it derives; and the page that is made of it."""

import re
import threading
import time
from base64 import b64encode
from decimal import Decimal
from hashlib import sha256
from html.parser import HTMLParser

import pytest
import yaml
from django.test import override_settings
from django.urls import re_path
from rest_framework import serializers

from accounts.services import create_group
from gateway_project.api.access import DIRECTORY, SITES, TABLE
from gateway_project.api.fields import Attributes, Text
from gateway_project.api.filters import BooleanFilter
from gateway_project.api.openapi import document as documents
from gateway_project.api.openapi import views
from gateway_project.api.openapi.page import prose, words
from gateway_project.api.resource_routes import resource
from gateway_project.api.routes import routes
from gateway_project.api.viewsets import CreateMixin, ListMixin
from keys.services import issue_key
from licensing.services import set_limit
from providers.services import set_price
from rules.services import create_rule
from tests.support.management import refused

pytestmark = pytest.mark.either_store


@pytest.fixture
def document(nobody):
    response = nobody.get("/schema/")
    assert response.headers["Content-Type"] == "application/json"
    return response.json()


def operations(document):
    return [result for methods in document["paths"].values() for result in methods.values()]


# jsonschema takes seconds to import: not in each process that collects tests.
def validate(value: object, schema: dict) -> None:
    import jsonschema

    jsonschema.validate(value, schema)


def validate_schema(document: dict) -> None:
    from drf_spectacular.validation import validate_schema

    validate_schema(document)


def test_it_is_valid(document):
    assert document["openapi"] == "3.1.0"
    validate_schema(document)


def test_every_reference_leads_somewhere_and_everything_is_referred_to(document):
    results = set(re.findall(r"'\$ref': '#/components/([\w-]+/[\w-]+)'", str(document)))
    components = {f"{kind}/{name}" for kind in document["components"] for name in document["components"][kind]}
    assert results <= components
    assert {name for name in components - results if not name.startswith("securitySchemes")} == set()


def test_no_alternative_takes_everything(document):
    """One that does makes `oneOf` refuse what another one takes as well."""

    def alternatives(value):
        if isinstance(value, dict):
            for union in ("oneOf", "anyOf"):
                yield from value.get(union, ())
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from alternatives(inner)

    assert {} not in list(alternatives(document))


def test_every_route_is_in_it(document):
    missing = [
        f"{route.method or 'a view that names no method:'} {route.path}"
        for route in routes()
        if route.name not in SITES
        and route.who != DIRECTORY  # SCIM describes itself
        and route.method not in document["paths"].get(documents.wire_path(route), {})
    ]
    assert missing == []


def test_every_operation_of_the_table_that_has_a_route_is_in_it(document):
    routed = {route.resource for route in routes()}
    results = {(tag, result["description"]) for result in operations(document) for tag in result["tags"]}
    for name, table in TABLE.items():
        if name in routed:
            for who in table.values():
                assert any(tag == name and who in description for tag, description in results), (name, who)


def test_operation_ids_are_unique(document):
    ids = [result["operationId"] for result in operations(document)]
    assert len(ids) == len(set(ids))


def test_every_operation_says_how_it_can_fail_and_carries_its_request_id(document):
    for result in operations(document):
        for status, response in result["responses"].items():
            shared = document["components"]["responses"].get(response.get("$ref", "").rpartition("/")[2])
            assert "X-Svc-Request-ID" in (shared or response)["headers"], (result["operationId"], status)


def test_bodies_stand_in_the_envelope_and_answers_in_both_media_types(document):
    create = document["paths"]["/users/"]["post"]
    for media_type in ("application/vnd.api+json", "application/json"):
        data = create["requestBody"]["content"][media_type]["schema"]["properties"]["data"]
        assert data["properties"]["attributes"] == {"$ref": "#/components/schemas/NewUserAttributes"}
    attributes = document["components"]["schemas"]["NewUserAttributes"]
    assert attributes["required"] == ["userName"]
    assert attributes["additionalProperties"] is False
    assert attributes["properties"]["userName"]["maxLength"] == 150
    assert attributes["properties"]["password"]["minLength"] == 8
    assert create["responses"]["201"]["headers"].keys() == {
        *("X-Svc-Request-ID", "Location", "Content-Location", "UserId")
    }
    answered = document["paths"]["/users/"]["get"]["responses"]["200"]["content"]
    assert answered["application/vnd.api+json"]["schema"]["properties"]["data"]["items"]["$ref"].endswith(
        "UserResource"
    )
    assert answered["application/json"]["schema"]["properties"]["data"]["items"]["$ref"].endswith("User")


def test_the_examples_are_what_the_schema_allows(document):
    shown = 0
    for result in operations(document):
        for content in result.get("requestBody", {}).get("content", {}).values():
            if "example" in content:
                shown += 1
                validate(content["example"], {**content["schema"], "components": document["components"]})
    assert shown > 30


@pytest.mark.parametrize("media_type", ["application/vnd.api+json", "application/json"])
def test_rows_are_what_it_says_they_are(admin, document, ann, first_provider, media_type):
    group = create_group(name="team", member_ids=[ann.pk])
    for subject in ({"user": ann}, {"group": group}, {"provider": first_provider}):
        set_limit(measure="requests", window="day", amount=Decimal(5), **subject)
    amounts = {"currency": "USD", "input": Decimal("2.5"), "output": Decimal(10)}
    set_price(host="api.example.org", model="large*", source="bundled", **amounts)
    set_price(provider=first_provider, model="small", cache_read=Decimal("0.1"), **amounts)
    issue_key(owner=ann, name="plain")
    create_rule(name="everyone", user_id=0)
    for path in ("/limits/", "/prices/", "/keys/", "/rules/", "/providers/", "/groups/", "/users/", "/roles/"):
        result = document["paths"][path]["get"]["responses"]["200"]["content"][media_type]["schema"]
        answer = admin.get(path, headers={"Accept": media_type}).json()
        assert answer["data"], path
        validate(answer, {**result, "components": document["components"]})


@pytest.mark.parametrize("amount", ["abc1", "1abc", "-1", "1.", ""])
def test_an_amount_is_nothing_but_an_amount(document, amount):
    from jsonschema import ValidationError

    schema = document["components"]["schemas"]["PriceAttributes"]["properties"]["input"]
    validate("2.50", schema)
    with pytest.raises(ValidationError):
        validate(amount, schema)


def test_what_must_stand_in_a_body_is_told(document):
    from jsonschema import ValidationError

    def accepted(path, method, data):
        content = document["paths"][path][method]["requestBody"]["content"]["application/json"]
        try:
            validate({"data": data}, {**content["schema"], "components": document["components"]})
        except ValidationError:
            return False
        return True

    for path, method in (("/keys/", "delete"), ("/keys/", "patch"), ("/auth/logout", "post")):
        assert accepted(path, method, {"attributes": {}, "meta": {}})
        assert not accepted(path, method, {})
        assert not accepted(path, method, {"attributes": {}, "name": "nightly"})
    assert accepted("/keys/", "delete", {"id": "5"})
    assert not accepted("/keys/", "patch", {"id": "5"})


def test_queries_are_typed(document):
    parameters = {result["name"]: result for result in document["paths"]["/users/"]["get"]["parameters"]}
    assert parameters.keys() == {
        *("currentUser", "id", "isDeleted", "active", "kind", "groupId", "userNameContains"),
        *("page[size]", "page[number]"),
    }
    assert parameters["active"]["schema"] == {"type": "boolean"}


def test_who_may_is_told_with_the_credentials_that_are_taken(document):
    paths = document["paths"]
    assert paths["/version/"]["get"]["security"] == []
    assert {"apiKey": []} not in paths["/roles/"]["post"]["security"]
    assert {"apiKey": []} in paths["/users/"]["post"]["security"]
    assert {"apiKey": []} in paths["/rules/lint/"]["get"]["security"]
    assert "`rules.view`" in paths["/rules/lint/"]["get"]["description"]
    assert "401" not in paths["/version/"]["get"]["responses"]


class ThingSerializer(serializers.Serializer):
    id = serializers.IntegerField()
    long_name = serializers.CharField()


class ThingAttributes(Attributes):
    long_name = Text(max_length=7)


class ThingViewSet(ListMixin, CreateMixin):
    """Things."""

    resource_name = "things"
    serializer_class = ThingSerializer
    create_attributes = ThingAttributes
    filters = {"isGood": BooleanFilter("good")}


class Paths:
    urlpatterns = [*resource(ThingViewSet), re_path("^silent$", lambda request: None, name="silent")]


@pytest.mark.long
def test_a_new_resource_appears_by_its_declarations_alone(monkeypatch):
    monkeypatch.setitem(
        TABLE, "things", {"list": "any logged-in user", "retrieve": "any logged-in user", "create": "admin"}
    )
    with override_settings(ROOT_URLCONF=Paths):
        result = documents.document.__wrapped__()
    validate_schema(result)
    assert result["paths"].keys() == {"/things/", "/things/{id}/"}
    assert result["components"]["schemas"]["ThingAttributes"]["properties"]["longName"]["maxLength"] == 7
    assert result["components"]["schemas"]["ThingResource"]["properties"]["type"] == {"const": "things"}
    assert result["paths"]["/things/"]["get"]["parameters"][0]["name"] == "isGood"


def test_yaml_says_the_same(nobody, document):
    response = nobody.get("/schema/?format=yaml")
    assert response.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(response.text) == document


@pytest.mark.parametrize("query", ["format=xml", "fromat=json", "format=json&format=yaml"])
def test_an_unknown_format_is_refused(nobody, query):
    refused(nobody.get(f"/schema/?{query}"), 400, "ValidationError", query.partition("=")[0])


@pytest.mark.parametrize("path", ["/schema", "/docs/", "/healthz", "/readyz", "/work"])
def test_other_methods_are_refused_with_the_one_error_body(nobody, path):
    response = nobody.send("PUT", path)
    refused(response, 405, "MethodNotAllowed")
    assert response.headers["Allow"]


# -- The page ---------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Gathers links, ids and whatever a page could load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.links, self.ids, self.loaded, self.open = [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in ("meta", "link"):
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a":
            self.links.append(values["href"])
        elif tag == "script" or "src" in values or values.get("href", "data:,") != "data:,":
            self.loaded.append((tag, values))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_shows_every_operation_and_loads_nothing(nobody, document):
    response = nobody.get("/docs")
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    (style,) = re.findall(r"<style>(.*)</style>", response.text, re.DOTALL)
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy
    page = Reader()
    page.feed(response.text)
    assert page.open == []
    assert page.loaded == []
    assert {result["operationId"] for result in operations(document)} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == {"/schema/", "/schema/?format=yaml"}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string", "minLength": 1, "maxLength": 9}, "text, no shorter than 1, no longer than 9"),
        ({"type": ["integer", "null"], "minimum": 0}, "whole number or null, at least 0"),
        ({"type": "integer", "maximum": 2**63 - 1}, "whole number"),
        ({"enum": ["a<b", None]}, "<code>&quot;a&lt;b&quot;</code> or <code>null</code>"),
        ({"type": "array", "items": {"$ref": "#/x/y/User"}}, 'list of: <a href="#schema-User">User</a>'),
        ({"anyOf": [{"type": "boolean"}, {"type": "object", "maxProperties": 0}]}, "true or false or {}"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({}, "anything"),
    ],
)
def test_schemas_are_told_in_words(schema, told):
    assert words(schema) == told


def test_descriptions_are_escaped():
    assert prose("One `<b>`.\n\n- a\n- b & c") == (
        "<p>One <code>&lt;b&gt;</code>.</p><ul><li>a</li><li>b &amp; c</li></ul>"
    )


def test_the_first_requests_at_one_moment_make_the_document_one_after_the_other(monkeypatch):
    begun, most = [], []

    def make():
        begun.append(1)
        most.append(len(begun))
        time.sleep(0.02)
        begun.pop()
        return {}

    monkeypatch.setattr(documents, "document", make)
    asking = [threading.Thread(target=views._document) for _ in range(5)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(30)
    assert most == [1] * 5
