"""Who may use SCIM, what the token opens, and what SCIM says about itself."""

import pytest

from accounts.builtin import FEATURES
from keys.services import issue_key
from telemetry.audit.models import AuditEntry
from tests.accounts.scim.conftest import TOKEN, USER, Directory, error
from tests.support.management import new_admin, token_of
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

OTHERS = {
    "nonsense": lambda: "nonsense",
    "almost": lambda: TOKEN[:-1],
    "longer": lambda: TOKEN + "x",
    "admin": lambda: token_of(new_admin()),
    "admin's key": lambda: issue_key(owner=new_admin(), name="key", permissions=FEATURES).text,
    "empty": lambda: "",
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("path", ["/Users", "/Groups", "/Schemas", "/ServiceProviderConfig", "/nothing"])
def test_no_other_credential_opens_it(directory, nobody, kind, path):
    stranger = Directory(nobody.base, OTHERS[kind]())
    response = stranger.send("GET", path)
    assert "GATEWAY_SCIM_TOKEN" in error(response, 401)
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("authorization", ["", TOKEN, f"Basic {TOKEN}", f"Token {TOKEN}", "Bearer", "Bearer é"])
def test_the_token_is_a_bearer_token(directory, authorization):
    response = directory.send("GET", "/Users", headers={"Authorization": authorization.encode("latin-1")})
    error(response, 401)


@pytest.mark.parametrize("path", ["/users/", "/groups/", "/keys/", "/work", "/v1/models", "/audit/", "/me/", "/admin/"])
def test_it_opens_nothing_else(directory, nobody, path):
    assert nobody.with_credential(TOKEN).get(path).status_code in (302, 401, 405)


@promise("V-O4: what a switch turns off has no routes", target="404, or 401 for every login", suite="attack")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/Users", "/Users/1", "/Groups", "/Groups/1", "/Schemas", "/ServiceProviderConfig"])
def test_without_the_setting_nothing_opens_it(directory, nobody, settings, path, method):
    settings.GATEWAY_SCIM_TOKEN = ""
    for token in ("", TOKEN):
        assert "switched off" in error(Directory(nobody.base, token).send(method, path), 401)


def test_wrong_tokens_are_counted_and_the_right_one_is_not_locked_out(directory, nobody, settings):
    settings.GATEWAY_LOGIN_FAILURES = 3
    stranger = Directory(nobody.base, "wrong")
    statuses = [stranger.send("GET", "/Users").status_code for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    refused = stranger.send("GET", "/Users")
    error(refused, 429)
    assert int(refused.headers["Retry-After"]) > 0
    assert directory.send("GET", "/Users").status_code == 200
    messages = list(AuditEntry.objects.filter(resource="scim").order_by("id").values_list("message", flat=True))
    assert len(messages) == 4
    assert "Too many wrong SCIM tokens" in messages[-1]
    assert not any(one == "wrong" for one in messages)


def test_writes_are_limited(directory, settings):
    settings.GATEWAY_WRITES_PER_MINUTE = 2
    statuses = [
        directory.send("POST", "/Users", {"schemas": [USER], "userName": f"user{number}"}).status_code
        for number in range(3)
    ]
    assert 429 in statuses or statuses == [201, 201, 201]  # the minute may have ended in between
    assert directory.send("GET", "/Users").status_code == 200
    assert directory.send("POST", "/Users/.search", {"schemas": []}).status_code == 200


def test_it_says_what_it_can(directory):
    config = directory.get("/ServiceProviderConfig")
    supported = {
        name: config[name]["supported"] for name in ("patch", "bulk", "filter", "changePassword", "sort", "etag")
    }
    assert supported == {
        "patch": True,
        "bulk": False,
        "filter": True,
        "changePassword": False,
        "sort": True,
        "etag": False,
    }
    assert config["filter"]["maxResults"] == 200
    assert config["authenticationSchemes"][0]["type"] == "oauthbearertoken"
    assert [one["id"] for one in directory.get("/ResourceTypes")["Resources"]] == ["User", "Group"]
    user = directory.get(f"/Schemas/{USER}")
    names = [attribute["name"] for attribute in user["attributes"]]
    assert names == ["userName", "displayName", "active", "emails", "groups"]
    error(directory.send("GET", "/Schemas/nothing"), 404)
    error(directory.send("GET", "/ResourceTypes/nothing"), 404)


@pytest.mark.parametrize("path", ["/Bulk", "/.search", "/Me"])
def test_what_is_not_supported_says_so(directory, path):
    error(directory.send("POST", path, {"schemas": []}), 501)


@pytest.mark.parametrize(("method", "path"), [("PUT", "/Users"), ("POST", "/Schemas"), ("POST", "/Users/1")])
def test_other_methods_are_refused(directory, method, path):
    response = directory.send(method, path, {"schemas": []})
    error(response, 405)
    assert "GET" in response.headers["Allow"]


def test_a_trailing_slash_and_head_are_fine(directory):
    assert directory.get("/Users/") == directory.get("/Users")
    head = directory.send("HEAD", "/Users")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("path", ["", "/", "/users", "/Users/1/2", "/Nothing"])
def test_unknown_paths_are_not_found(directory, path):
    error(directory.send("GET", path), 404)
