"""Trusted issuers in the console."""

import json
from html import unescape

import pytest

from accounts.trusted_issuers.models import TrustedIssuer
from telemetry.models import LogEntry
from tests.support.issuers import AUDIENCE, SUBJECT, Issuer

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
FIELDS = {
    "name": "Cluster",
    "enabled": "on",
    "issuer": "https://kubernetes.default.svc",
    "audience": AUDIENCE,
    "jwks_url": "",
    "jwks": json.dumps(Issuer().jwks),
    "algorithms": ["ES256"],
    "user_claim": "sub",
    "user_prefix": "",
    "subjects": "{}",
    "leeway_seconds": "30",
    "max_age_seconds": "3600",
}
PAGE = "/admin/accounts/trustedissuer/"


@pytest.mark.long
def test_an_issuer_is_added_changed_and_deleted(console, ann):
    assert "There are no trusted issuers" in console.get(PAGE).text
    response = console.post(f"{PAGE}add/", FIELDS)
    assert response.status_code == 302, response.context["adminform"].form.errors
    issuer = TrustedIssuer.objects.get(name="Cluster")
    assert (issuer.algorithms, list(issuer.key_ids), issuer.max_age_seconds) == (["ES256"], ["first"], 3600)
    assert LogEntry.objects.filter(message__contains="trusted-issuers").exists()
    page = console.get(f"{PAGE}{issuer.pk}/change/")
    assert "kubernetes.default.svc" in unescape(page.text)
    changed = FIELDS | {
        "subjects": json.dumps({SUBJECT: "ann"}),
        "_seen": page.context["adminform"].form.first_digest,
    }
    response = console.post(f"{PAGE}{issuer.pk}/change/", changed)
    assert response.status_code == 302, response.context["adminform"].form.errors
    issuer.refresh_from_db()
    assert issuer.subjects == {SUBJECT: "ann"}
    assert "first" in console.get(PAGE).text
    assert console.post(f"{PAGE}{issuer.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not TrustedIssuer.objects.exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("jwks", "{", "JSON"),
        ("jwks", '{"keys": []}', "signatures"),
        ("subjects", "[]", "object"),
        ("subjects", '{"x": "ann", "x": "bob"}', "twice"),
        ("subjects", '{"x\\u0000": "ann"}', "NUL"),
        ("jwks", '{"keys": ' + "[" * 1000 + "]" * 1000 + "}", "levels deep"),
        ("subjects", '{"x": "nobody"}', "nobody"),
        ("algorithms", [], "required"),
        ("algorithms", ["HS256"], "HS256"),
        ("jwks_url", "http://keys.example.org/", "empty"),
        ("max_age_seconds", "1", "60"),
        ("audience", "", "required"),
    ],
)
def test_what_is_wrong_is_named_beside_its_field(console, name, text, words):
    response = console.post(f"{PAGE}add/", FIELDS | {name: text})
    assert response.status_code == 200
    errors = response.context["adminform"].form.errors
    assert list(errors) == [name]
    assert words in str(errors)
