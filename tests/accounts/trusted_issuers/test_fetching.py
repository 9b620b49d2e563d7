"""Keys that an administrator has fetched now: by the API and in the console, bounded, and in the audit."""

import json

import pytest

from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import create_trusted_issuer, update_trusted_issuer
from telemetry.audit.models import AuditEntry
from tests.support.issuers import AUDIENCE, Issuer, IssuerServer
from tests.support.management import refused

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture
def server():
    with IssuerServer() as server:
        yield server


@pytest.fixture
def row(server):
    return create_trusted_issuer(name="cluster", issuer=server.url, audience=AUDIENCE)


def test_keys_are_fetched_now_and_not_too_often(admin, row):
    response = admin.post(f"/trusted-issuers/{row.pk}/fetch/")
    assert response.status_code == 200, response.text
    assert (response.json()["keyIds"], response.json()["keysProblem"]) == (["first"], "")
    refused(admin.post(f"/trusted-issuers/{row.pk}/fetch/"), 429, "RateLimited")
    (entry,) = AuditEntry.objects.filter(action="fetch", resource="trusted-issuers", resource_id=row.pk)
    assert (json.loads(entry.before)["keyIds"], json.loads(entry.after)["keyIds"]) == ([], ["first"])


def test_why_they_cannot_be_is_the_answer(admin, row):
    update_trusted_issuer(row, jwks_url="http://127.0.0.1:9/keys")
    answer = admin.post(f"/trusted-issuers/{row.pk}/fetch/").json()
    assert answer["keyIds"] == []
    assert "http://127.0.0.1:9/keys" in answer["keysProblem"]


def test_nothing_is_fetched_for_stored_keys_and_disabled_issuers(admin, row):
    stored = create_trusted_issuer(name="s", issuer="https://s.example", audience="s", jwks=Issuer().jwks)
    update_trusted_issuer(row, enabled=False)
    for one in (stored, row):
        refused(admin.post(f"/trusted-issuers/{one.pk}/fetch/"), 409, "Conflict")
    refused(admin.post("/trusted-issuers/99999/fetch/"), 404, "NotFound")


@pytest.mark.long
def test_the_console_has_a_button(console, row):
    path = f"/admin/accounts/trustedissuer/{row.pk}/fetch/"
    assert "Fetch keys now" in console.get(f"/admin/accounts/trustedissuer/{row.pk}/change/").text
    assert console.get(path).status_code == 200
    assert "The keys were fetched." in console.post(path, follow=True).text
    assert list(TrustedIssuer.objects.get(pk=row.pk).key_ids) == ["first"]
    assert AuditEntry.objects.filter(action="fetch", resource="trusted-issuers").exists()
