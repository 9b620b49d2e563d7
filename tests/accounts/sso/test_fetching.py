"""Keys of an identity provider that an administrator has fetched now: each process asks anew from then on."""

import pytest

from accounts.sso.models import IdentityProvider
from accounts.sso.protocol import metadata
from accounts.sso.services import update_identity_provider
from telemetry.audit.models import AuditEntry
from tests.support.management import refused
from tests.support.oidc import DISCOVERY, KEYS, Answer, key
from tests.support.running import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def test_keys_are_fetched_now_and_not_too_often(admin, provider, issuer):
    memory = metadata.recall_provider(issuer.url)
    assert [one.id for one in memory.keys("RS256", "")] == ["first"]
    issuer.published = [key("second"), key("third")]
    path = f"/identity-providers/{provider.pk}/fetch/"
    assert admin.post(path).json()["keys"] == 2
    assert issuer.requests_to(KEYS) == 2
    refused(admin.post(path), 429, "RateLimited")
    assert AuditEntry.objects.filter(action="fetch", resource="identity-providers").count() == 1


def test_a_process_that_remembers_older_ones_asks_anew(admin, provider, issuer, monkeypatch):
    memory = metadata.recall_provider(issuer.url)
    assert [one.id for one in memory.keys("RS256", "")] == ["first"]
    issuer.published = [key("second")]
    admin.post(f"/identity-providers/{provider.pk}/fetch/")
    provider.refresh_from_db()
    monkeypatch.setitem(metadata._registry, issuer.url, memory)  # as in another process
    renewed = metadata.recall_provider(issuer.url, fetched_at=provider.fetched_at)
    assert [one.id for one in renewed.keys("RS256", "")] == ["second"]
    assert metadata.recall_provider(issuer.url, fetched_at=provider.fetched_at) is renewed


def test_if_it_fails_all_goes_on(admin, provider, issuer):
    memory = metadata.recall_provider(issuer.url)
    memory.metadata()
    issuer.answers = dict.fromkeys((DISCOVERY, KEYS), Answer({}, status=500))
    answer = admin.post(f"/identity-providers/{provider.pk}/fetch/")
    refused(answer, 502, "ProviderError", DISCOVERY, "answered with status 500 and without a JSON object.")
    provider.refresh_from_db()
    assert metadata.recall_provider(issuer.url, fetched_at=provider.fetched_at) is memory


def test_an_admin_reads_why_it_fails(admin, provider, issuer):
    issuer.answers[DISCOVERY] = Answer({"issuer": "https://other.example"})
    answer = admin.post(f"/identity-providers/{provider.pk}/fetch/")
    refused(answer, 502, "ProviderError", "it is of another issuer, 'https://other.example'")
    IdentityProvider.objects.update(issuer=f"http://127.0.0.1:{free_port()}", fetch_begun_at=None)
    refused(admin.post(f"/identity-providers/{provider.pk}/fetch/"), 502, "ProviderError", "It cannot be reached")


def test_a_disabled_one_is_not_asked(admin, provider, issuer):
    update_identity_provider(provider, enabled=False)
    refused(admin.post(f"/identity-providers/{provider.pk}/fetch/"), 409, "Conflict")
    assert issuer.requests_to(DISCOVERY) == 0


@pytest.mark.long
def test_the_console_has_a_button(console, provider):
    path = f"/admin/accounts/identityprovider/{provider.pk}/fetch/"
    assert "Fetch keys now" in console.get(f"/admin/accounts/identityprovider/{provider.pk}/change/").text
    assert "The provider has 1 signing key." in console.post(path, follow=True).text
