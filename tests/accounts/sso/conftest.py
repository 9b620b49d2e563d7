"""A browser without JavaScript that logs in with an identity provider."""

import logging
from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.http import HttpResponse
from django.test import Client

from accounts.sso.models import IdentityProvider
from accounts.sso.protocol import metadata
from accounts.sso.services import create_identity_provider
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, HostileIssuer


@pytest.fixture(autouse=True)
def own_counts(settings) -> None:
    """What others count in the same cache is theirs."""
    own = f"test-{token_hex(6)}"
    settings.CACHES = {name: {**cache, "KEY_PREFIX": own} for name, cache in settings.CACHES.items()}


@pytest.fixture
def issuer() -> Iterator[HostileIssuer]:
    with HostileIssuer() as running:
        yield running
        metadata.forget_provider(running.url)


def registered(issuer_url: str, **values: Any) -> IdentityProvider:
    """The gateway's row of an issuer."""
    defaults = {"name": "Corp", "slug": "corp", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    return create_identity_provider(**{**defaults, "issuer": issuer_url, "create_users": True, **values})


@pytest.fixture
def provider(db, issuer: HostileIssuer) -> IdentityProvider:
    """It creates users at their first login, and has no rules."""
    return registered(issuer.url)


class SignOn:
    """One browser, and one provider."""

    def __init__(self, client: Client, issuer: HostileIssuer, slug: str = "corp") -> None:
        self.client, self.issuer, self.slug = client, issuer, slug

    def begin(self, next_path: str = "/me/") -> dict[str, str]:
        """The parameters that the browser is sent to the provider with."""
        response = self.client.get(f"/auth/sso/{self.slug}/", {"next": next_path} if next_path else {})
        assert response.status_code == 302, response.content
        return dict(parse_qsl(urlsplit(response.headers["Location"]).query))

    def come_back(self, **parameters: str) -> HttpResponse:
        return self.client.get(f"/auth/sso/{self.slug}/callback/", parameters, HTTP_ACCEPT="text/html")

    def log_in(
        self, claims: Mapping[str, Any] | None = None, next_path: str = "/me/", **parameters: str
    ) -> HttpResponse:
        """The whole way, with a good code for these claims."""
        login = self.begin(next_path)
        values = {"code": self.issuer.code(login, claims), "state": login["state"], **parameters}
        return self.come_back(**values)


@pytest.fixture
def sign_on(client: Client, provider: IdentityProvider, issuer: HostileIssuer) -> SignOn:
    return SignOn(client, issuer)


def is_logged_in(client: Client) -> bool:
    return client.get("/me/account/").status_code == 200


@pytest.fixture(autouse=True)
def nothing_printed_yet(monkeypatch):
    """Each kind of message is printed once a minute: in each test anew."""
    for seldom in logging.getLogger("gateway.sso").filters:
        monkeypatch.setattr(seldom, "_kinds", {})
