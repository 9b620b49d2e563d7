"""Logging out: here and then at the provider, or at the provider and therefore here."""

import time
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from accounts.models import Session
from accounts.sso.models import FederatedLogin
from accounts.sso.protocol.sealing import unseal_text
from accounts.sso.services import update_identity_provider
from telemetry.audit.models import AuditEntry
from tests.accounts.sso.conftest import SignOn, is_logged_in
from tests.support.management import PASSWORD
from tests.support.oidc import key
from tests.support.oidc import unsigned as without_signature
from tests.support.promises import promise

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
EVENT = "http://schemas.openid.net/event/backchannel-logout"


def report(client: Client, token: str) -> int:
    response = client.post("/auth/sso/corp/backchannel-logout/", {"logout_token": token})
    assert response.status_code in (200, 400), response.content
    if response.status_code == 400:
        assert response.json()["exception"] == "ValidationError"
    return response.status_code


class TestHere:
    @pytest.mark.parametrize("path", ["/me/logout/", "/admin/logout/"])
    def test_a_logout_leads_on_to_the_provider(self, client, sign_on, provider, settings, path):
        update_identity_provider(provider, rules="always → role admin")
        sign_on.log_in()
        token = unseal_text(FederatedLogin.objects.get().id_token)
        page = client.post(path).content.decode()
        assert not Session.objects.live().exists()
        url = page.partition("url=")[2].partition('"')[0].replace("&amp;", "&")
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{sign_on.issuer.url}/logout?")
        assert query == {
            "id_token_hint": token,
            "client_id": "gateway",
            "post_logout_redirect_uri": f"{settings.GATEWAY_BASE_URL}/me/login/",
        }

    def test_it_ends_here_if_the_provider_has_no_logout(self, client, sign_on, issuer):
        issuer.metadata["end_session_endpoint"] = None
        sign_on.log_in()
        assert client.post("/me/logout/").headers["Location"] == "/me/login/"
        assert not Session.objects.live().exists()

    def test_a_local_login_ends_here(self, client, sign_on, ann):
        client.post("/me/login/", {"username": "ann", "password": PASSWORD})
        assert client.post("/me/logout/").headers["Location"] == "/me/login/"


@promise(
    "A logout at the identity provider ends the sessions here, and only a genuine one",
    target="200 or 400",
    suite="attack",
)
class TestThere:
    def test_the_sessions_of_the_subject_end(self, client, sign_on, issuer):
        sign_on.log_in()
        other = SignOn(Client(), issuer)
        other.log_in({"sub": "somebody-else", "preferred_username": "bob"})
        assert report(client, issuer.logout_token()) == 200
        assert not is_logged_in(client)
        assert is_logged_in(other.client)
        assert AuditEntry.objects.get(action="logout").actor == "ann"

    def test_one_session_of_several(self, client, sign_on, issuer):
        sign_on.log_in({"sid": "first"})
        second = SignOn(Client(), issuer)
        second.log_in({"sid": "second"})
        assert report(client, issuer.logout_token(sid="second")) == 200
        assert (is_logged_in(client), is_logged_in(second.client)) == (True, False)
        assert report(client, issuer.logout_token(sid="first", sub=None)) == 200
        assert not is_logged_in(client)

    def test_sessions_of_a_provider_that_is_disabled_end_too(self, client, sign_on, issuer, provider):
        sign_on.log_in()
        update_identity_provider(provider, enabled=False)
        assert is_logged_in(client)
        assert report(client, issuer.logout_token()) == 200
        assert not is_logged_in(client)

    def test_a_token_is_good_once(self, client, sign_on, issuer):
        sign_on.log_in()
        token = issuer.logout_token()
        assert report(client, token) == 200
        sign_on.log_in()
        assert report(client, token) == 400
        assert is_logged_in(client)

    @pytest.mark.parametrize(
        "claims",
        [
            {"aud": "another-client"},
            {"aud": None},
            {"iss": "https://login.example.com"},
            {"iat": int(time.time()) - 3600},
            {"iat": int(time.time()) + 3600},
            {"iat": None},
            {"iat": "now"},
            {"exp": int(time.time()) - 3600},
            {"jti": None},
            {"jti": 5},
            {"jti": ""},
            {"events": None},
            {"events": [EVENT]},
            {"events": {EVENT: True}},
            {"events": {"http://example.com/other": {}}},
            {"nonce": "n"},
            {"sub": None},
            {"sub": ["subject-1"]},
            {"sub": ""},
            {"sid": 5},
        ],
    )
    def test_any_other_token_is_refused(self, client, sign_on, issuer, claims):
        sign_on.log_in()
        assert report(client, issuer.logout_token(**claims)) == 400
        assert is_logged_in(client)

    def test_an_id_token_is_no_logout_token(self, client, sign_on, issuer):
        sign_on.log_in()
        assert report(client, issuer.sign(issuer.claims())) == 400
        assert report(client, unseal_text(FederatedLogin.objects.get().id_token)) == 400

    @pytest.mark.parametrize("kind", ["unsigned", "other key", "no token", "empty"])
    def test_a_token_that_the_provider_has_not_signed(self, client, sign_on, issuer, kind):
        sign_on.log_in()
        claims = {**issuer.claims(nonce=None), "events": {EVENT: {}}, "jti": "1"}
        issuer.signing_key = key("other") if kind == "other key" else key()
        tokens = {"unsigned": without_signature(claims), "other key": issuer.sign(claims), "no token": "x", "empty": ""}
        assert report(client, tokens[kind]) == 400
        assert is_logged_in(client)

    def test_only_a_form_by_post(self, client, provider):
        assert client.get("/auth/sso/corp/backchannel-logout/").status_code == 405
        assert (
            client.post("/auth/sso/corp/backchannel-logout/", b"{}", content_type="application/json").status_code == 400
        )
        assert client.post("/auth/sso/other/backchannel-logout/").status_code == 404
