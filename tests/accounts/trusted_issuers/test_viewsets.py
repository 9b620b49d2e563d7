"""Trusted issuers over HTTP."""

import itertools
import json

import pytest

from accounts.services import delete_user
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import MAX_ISSUERS, create_trusted_issuer, store_fetched_keys
from keys.services import issue_key
from telemetry.models import LogEntry
from tests.support.hostile import try_wrong
from tests.support.issuers import AUDIENCE, SUBJECT, Issuer
from tests.support.management import new_admin, new_user, refused

pytestmark = pytest.mark.either_store

_numbers = itertools.count()


def good(**changes):
    """Attributes that are accepted."""
    number = next(_numbers)
    return {"name": f"issuer {number}", "issuer": f"https://issuer-{number}.example.org", "audience": "llm"} | changes


def make(client, **changes) -> TrustedIssuer:
    response = client.post("/trusted-issuers/", **good(**changes))
    assert response.status_code == 201, response.text
    return TrustedIssuer.objects.get(pk=response.headers["TrustedIssuerId"])


def row_of(client, issuer) -> dict:
    (row,) = client.rows(f"/trusted-issuers/?id={issuer.pk}")
    return row


def test_defaults_are_strict(admin):
    row = row_of(admin, make(admin, name="portal", issuer="https://login.example.org/"))
    assert row.pop("id")
    assert row == {
        "name": "portal",
        "enabled": True,
        "issuer": "https://login.example.org/",
        "audience": "llm",
        "algorithms": ["RS256", "ES256"],
        "jwksUrl": "",
        "jwks": None,
        "userClaim": "sub",
        "userPrefix": "",
        "subjects": {},
        "leewaySeconds": 30,
        "maxAgeSeconds": 86_400,
        "keyIds": [],
        "keysFetchedAt": None,
        "keysProblem": "",
    }


def test_an_issuer_is_listed_as_it_was_sent(admin, ann):
    attributes_sent = {
        "name": "cluster",
        "enabled": False,
        "issuer": "https://kubernetes.default.svc",
        "audience": AUDIENCE,
        "algorithms": ["ES384"],
        "jwks": Issuer().jwks,
        "userClaim": "email",
        "userPrefix": "k8s:",
        "subjects": {SUBJECT: "ann"},
        "leewaySeconds": 0,
        "maxAgeSeconds": 60,
    }
    row = row_of(admin, make(admin, **attributes_sent))
    assert {name: row[name] for name in attributes_sent} == attributes_sent
    assert row["keyIds"] == ["first"]


def test_a_change_is_stored_and_audited(admin):
    issuer = make(admin)
    assert admin.patch(f"/trusted-issuers/{issuer.pk}/", enabled=False, audience="other").status_code == 200
    assert (row_of(admin, issuer)["enabled"], row_of(admin, issuer)["audience"]) == (False, "other")
    entry = LogEntry.objects.filter(message__contains=f"changed trusted-issuers {issuer.pk}").get()
    payload = json.loads(entry.payload)
    assert (payload["before"]["audience"], payload["after"]["audience"]) == ("llm", "other")
    assert admin.delete(f"/trusted-issuers/{issuer.pk}/").status_code == 200
    assert not TrustedIssuer.objects.filter(pk=issuer.pk).exists()


def test_a_whole_resource_can_be_sent_back(admin):
    issuer = make(admin)
    attributes = {name: value for name, value in row_of(admin, issuer).items() if name != "id"}
    store_fetched_keys(issuer.pk, issuer=issuer.issuer, jwks_url="", jwks=Issuer().jwks, problem="")
    assert admin.patch(f"/trusted-issuers/{issuer.pk}/", **attributes).status_code == 200
    assert row_of(admin, issuer)["keyIds"] == ["first"]


def test_another_address_forgets_the_keys_of_the_former(admin):
    issuer = make(admin)
    store_fetched_keys(issuer.pk, issuer=issuer.issuer, jwks_url="", jwks=Issuer().jwks, problem="")
    admin.patch(f"/trusted-issuers/{issuer.pk}/", jwksUrl="https://keys.example.org/")
    assert row_of(admin, issuer)["keyIds"] == []
    # And those that somebody was fetching meanwhile are not stored.
    store_fetched_keys(issuer.pk, issuer=issuer.issuer, jwks_url="", jwks=Issuer().jwks, problem="")
    assert row_of(admin, issuer)["keyIds"] == []


def test_users_are_stored_by_the_names_they_have(admin, ann):
    issuer = make(admin, subjects={SUBJECT: "ANN"})
    assert row_of(admin, issuer)["subjects"] == {SUBJECT: "ann"}
    delete_user(ann)
    assert admin.patch(f"/trusted-issuers/{issuer.pk}/", subjects={SUBJECT: "ann"}).status_code == 200
    refused(admin.patch(f"/trusted-issuers/{issuer.pk}/", subjects={"x": "bob"}), 400, "ValidationError", "bob")


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("name", "", "blank"),
        ("name", " x", "name"),
        ("issuer", "", "blank"),
        ("issuer", "http://login.example.org", "https"),
        ("issuer", "kubernetes/serviceaccount", "https"),
        ("audience", "", "blank"),
        ("audience", "x" * 501, "500"),
        ("algorithms", [], "one or more"),
        ("algorithms", ["none"], "none of"),
        ("algorithms", ["RS256", "HS256"], "HS256"),
        ("algorithms", "RS256", "array"),
        ("jwksUrl", "http://keys.example.org/", "https"),
        ("jwksUrl", "file:///etc/passwd", "https"),
        ("jwksUrl", "https://user:password@keys.example.org/", "user name"),
        ("jwksUrl", "https://", "https"),
        ("jwksUrl", "https://keys.example.org:99999/", "https"),
        ("jwksUrl", "https://keys.example.org/a b", "https"),
        ("jwks", {}, "keys"),
        ("jwks", {"keys": []}, "signatures"),
        ("jwks", {"keys": [{"kty": "oct", "kid": "k", "k": "c2VjcmV0"}]}, "symmetric"),
        ("jwks", {"keys": [{"kty": "RSA", "kid": "k", "n": "x", "e": "AQAB"}]}, "cannot be read"),
        ("jwks", {"keys": [{**Issuer().jwks["keys"][0], "d": "x"}]}, "private"),
        ("userClaim", "", "blank"),
        ("subjects", {"x": "nobody"}, "nobody"),
        ("subjects", {"x": 5}, "name of a user"),
        ("subjects", {"": "ann"}, "printable"),
        ("subjects", [], "object"),
        ("leewaySeconds", 301, "300"),
        ("leewaySeconds", -1, "0"),
        ("maxAgeSeconds", 59, "60"),
        ("keyIds", [], "Unknown"),
    ],
)
def test_what_is_wrong_is_refused_with_its_name(admin, attribute, value, words):
    response = admin.post("/trusted-issuers/", **good(**{attribute: value}))
    refused(response, 400, "ValidationError", words)
    (error,) = response.json()["errors"]
    assert error["source"]["pointer"].startswith(f"/data/attributes/{attribute}")


def test_stored_keys_and_an_address_exclude_each_other(admin):
    response = admin.post("/trusted-issuers/", **good(jwks=Issuer().jwks, jwksUrl="https://keys.example.org/"))
    refused(response, 400, "ValidationError", "jwksUrl")


def test_keys_of_this_machine_may_come_without_tls(admin):
    for number, host in enumerate(("127.0.0.1:8443", "localhost", "[::1]")):
        make(admin, jwksUrl=f"http://{host}/{number}")


def test_names_and_audiences_are_taken_once(admin):
    first = good()
    assert admin.post("/trusted-issuers/", **first).status_code == 201
    refused(admin.post("/trusted-issuers/", **{**first, "audience": "other"}), 409, "Conflict")
    refused(admin.post("/trusted-issuers/", **{**first, "name": "another"}), 409, "Conflict")
    assert admin.post("/trusted-issuers/", **{**first, "name": "another", "audience": "other"}).status_code == 201


def test_there_are_not_too_many(admin):
    for _ in range(MAX_ISSUERS):
        create_trusted_issuer(**good())
    refused(admin.post("/trusted-issuers/", **good()), 409, "Conflict", "50")


def test_no_attribute_is_a_fault_of_ours(admin):
    issuer = make(admin)
    names = ("name", "issuer", "audience", "algorithms", "jwksUrl", "jwks", "userClaim", "userPrefix", "subjects")
    try_wrong(lambda **values: admin.patch(f"/trusted-issuers/{issuer.pk}/", **values), names, dict)
    try_wrong(lambda **values: admin.post("/trusted-issuers/", **values), ("leewaySeconds", "maxAgeSeconds"), good)


def test_it_is_for_admins_logged_in_alone(nobody, admin, as_ann):
    """Whoever can add an issuer can send work as everybody: no role and no key has that."""
    key = issue_key(owner=new_admin(), name="all", permissions=["users.manage", "rules.modify", "audit.view"]).text
    manager = nobody.as_user(new_user("users.manage", "rules.modify", "providers.modify"))
    for client in (nobody.with_credential(key), manager, as_ann):
        refused(client.get("/trusted-issuers/"), 403, "PermissionDenied")
        refused(client.post("/trusted-issuers/", **good()), 403, "PermissionDenied")
    refused(nobody.get("/trusted-issuers/"), 401, "AuthenticationFailed")


def test_a_token_of_a_trusted_issuer_opens_nothing_of_the_management_api(nobody):
    """Not even that of an admin."""
    issuer, user = Issuer(), new_admin()
    create_trusted_issuer(**good(issuer=issuer.url), jwks=issuer.jwks)
    client = nobody.with_credential(issuer.token(sub=user.username, aud="llm"))
    for path in ("/users/1/", "/users/", "/keys/", "/logs/", "/trusted-issuers/"):
        refused(client.get(path), 401, "AuthenticationFailed")
    refused(client.post("/keys/", name="mine"), 401, "AuthenticationFailed")
