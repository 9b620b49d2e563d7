"""docs/sso.md: with what the page says to enter, a provider that sends what each product sends logs people in.

The local provider has the path, the claims and the endpoints that the documentation of the product describes.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from accounts.models import Session, User
from accounts.sso.claim_rules import read_rules
from accounts.sso.models import IdentityProvider
from accounts.sso.protocol import metadata
from tests.accounts.sso.conftest import SignOn, is_logged_in, registered
from tests.accounts.sso.test_logout import EVENT, report
from tests.support.management import new_admin
from tests.support.oidc import CLIENT_ID, Answer, HostileIssuer
from tests.support.running import ROOT

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
PAGE = (ROOT / "docs/sso.md").read_text()
TENANT = "0c6a1f5e-2a1b-4a53-9d68-0d1f6d9f3b11"
NO_LOGOUT = {"end_session_endpoint": None}


def settings_of(product: str) -> dict[str, list[str]]:
    """The table of a product: by setting, the values that the page says to enter."""
    section = re.search(rf"^### {product}\n(.*?)^##", PAGE, re.MULTILINE | re.DOTALL)[1]
    rows = re.findall(r"^\| (issuer|scopes|claim of the user name|rules)\b.*? \| (.*) \|$", section, re.MULTILINE)
    return {name: re.findall(r"`(.*?)`", values) for name, values in rows}


class ProductIssuer(HostileIssuer):
    """A local provider at the path of the product's issuer."""

    def __init__(self, path: str, endpoints: Mapping[str, Any]) -> None:
        super().__init__()
        self.path = path.rstrip("/")
        self.metadata.update(endpoints)

    @property
    def url(self) -> str:
        return super().url + self.path

    def answer(self, path: str, form: dict[str, str], headers: Mapping[str, str]) -> Answer:
        return super().answer(path.removeprefix(self.path), form, headers)


class Product:
    """A provider and the gateway's row of it, as the page has it."""

    def __init__(self, client: Client, issuer: ProductIssuer, row: IdentityProvider) -> None:
        self.issuer, self.row = issuer, row
        self.sign_on = SignOn(client, issuer)

    def log_in(self, claims: Mapping[str, Any], **parameters: str) -> int:
        """The status of a login with these claims."""
        without = {"preferred_username": None}  # which not every product sends
        return self.sign_on.log_in(without | dict(claims), **parameters).status_code


@contextmanager
def product_at(client: Client, name: str, number: int = 0, **endpoints: Any) -> Iterator[Product]:
    values = settings_of(name)
    path = urlsplit(values["issuer"][number]).path.replace("REALM", "main").replace("TENANT-ID", TENANT)
    (scopes,), (user_name,) = values["scopes"], values["claim of the user name"]
    with ProductIssuer(path, endpoints) as issuer:
        rules = "\n".join(values["rules"])
        yield Product(client, issuer, registered(issuer.url, scopes=scopes, user_name_claim=user_name, rules=rules))
        metadata.forget_provider(issuer.url)


def granted_by(name: str, claim: str) -> str:
    """The value that the page's rule about this claim asks for."""
    (rule,) = [rule for rule in read_rules("\n".join(settings_of(name)["rules"])) if rule.claim == claim]
    return rule.value


def roles(username: str) -> set[str]:
    return {role.name for role in User.objects.get(username=username).roles.all()}


def leads_on(client: Client, issuer: HostileIssuer) -> bool:
    """Whether a logout here ends the session and leads on to the provider."""
    response = client.post("/me/logout/")
    assert not Session.objects.live().exists()
    return f"url={issuer.url}/logout?" in response.content.decode()


class TestKeycloak:
    CLAIMS = {
        "sub": "f:6f1d8a:ann", "typ": "ID", "azp": CLIENT_ID, "sid": "4d2c", "session_state": "4d2c", "acr": "1",
        "preferred_username": "ann", "name": "Ann Example", "email": "ann@example.com", "email_verified": False,
    }  # fmt: skip

    @pytest.fixture
    def keycloak(self, client) -> Iterator[Product]:
        with product_at(client, "Keycloak", authorization_response_iss_parameter_supported=True) as product:
            yield product

    @pytest.mark.long
    def test_groups_and_realm_roles_give_roles(self, keycloak):
        new_admin()
        group, role = (granted_by("Keycloak", claim) for claim in ("groups", "realm_access.roles"))
        assert keycloak.issuer.url.endswith("/realms/main")
        back = {"iss": keycloak.issuer.url}
        assert keycloak.log_in(self.CLAIMS | {"realm_access": {"roles": ["offline_access"]}}, **back) == 403
        assert keycloak.log_in(self.CLAIMS | {"realm_access": {"roles": ["offline_access", role]}}, **back) == 200
        assert roles("ann") == {"user"}
        assert keycloak.log_in(self.CLAIMS | {"groups": [group]}, **back) == 200
        assert roles("ann") == {"admin"}
        assert keycloak.log_in(self.CLAIMS | {"groups": [f"/{group}"]}, **back) == 200  # the full path
        assert roles("ann") == set()

    @pytest.mark.long
    @pytest.mark.parametrize("kind", ["JWT", "logout+jwt"])
    def test_its_logout_token_ends_the_session_that_it_names(self, client, keycloak, kind):
        back, issuer = {"iss": keycloak.issuer.url}, keycloak.issuer
        claims = self.CLAIMS | {"groups": [granted_by("Keycloak", "groups")]}
        assert keycloak.log_in(claims, **back) == 200
        other = Product(Client(), issuer, keycloak.row)
        assert other.log_in(claims | {"sid": "9f", "session_state": "9f"}, **back) == 200
        logout = {"sub": claims["sub"], "sid": "9f", "typ": "Logout", "jti": "1", "events": {EVENT: {}}}
        token = issuer.sign(issuer.claims(nonce=None, preferred_username=None, **logout), typ=kind)
        assert report(client, token) == 200
        assert (is_logged_in(client), is_logged_in(other.sign_on.client)) == (True, False)
        assert leads_on(client, issuer)


class TestEntra:
    CLAIMS = {
        "sub": "AAAApairwise", "oid": "b3f1", "tid": TENANT, "ver": "2.0", "sid": "00a1", "name": "Ann Example",
        "preferred_username": "ann@example.com", "email": "ann@example.com",
    }  # fmt: skip

    @pytest.fixture
    def entra(self, client) -> Iterator[Product]:
        with product_at(client, "Entra ID") as product:
            yield product

    @pytest.mark.long
    def test_ids_of_groups_and_app_roles_give_roles(self, entra):
        new_admin()
        group, role = (granted_by("Entra ID", claim) for claim in ("groups", "roles"))
        assert entra.issuer.url.endswith(f"/{TENANT}/v2.0")
        assert entra.log_in(self.CLAIMS) == 403
        assert entra.log_in(self.CLAIMS | {"roles": [role]}) == 200
        assert roles("ann@example.com") == {"user"}
        assert entra.log_in(self.CLAIMS | {"groups": [TENANT, group]}) == 200
        assert roles("ann@example.com") == {"admin"}

    @pytest.mark.long
    def test_who_is_in_too_many_groups_has_none(self, entra):
        new_admin()
        group = granted_by("Entra ID", "groups")
        assert entra.log_in(self.CLAIMS | {"groups": [group]}) == 200
        overage = {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph"}}}
        assert entra.log_in(self.CLAIMS | overage) == 200
        assert roles("ann@example.com") == set()

    def test_a_logout_leads_on_to_it(self, client, entra):
        entra.log_in(self.CLAIMS | {"roles": [granted_by("Entra ID", "roles")]})
        assert leads_on(client, entra.issuer)

    @pytest.mark.parametrize("name", ["common", "organizations"])
    def test_an_issuer_of_every_directory_is_refused(self, client, name, caplog):
        """Its discovery document names no directory, and tokens name their own."""
        assert f"`{name}`" in PAGE
        with ProductIssuer(f"/{name}/v2.0", {}) as issuer:
            registered(issuer.url)
            issuer.metadata["issuer"] = issuer.url.replace(name, "{tenantid}")
            assert client.get("/auth/sso/corp/", {"next": "/me/"}).status_code == 502
            assert "it is of another issuer" in caplog.text
            metadata.forget_provider(issuer.url)

    def test_nor_is_a_token_of_another_directory(self, entra):
        claims = self.CLAIMS | {"roles": [granted_by("Entra ID", "roles")]}
        foreign = entra.issuer.url.replace(TENANT, "11111111-2a1b-4a53-9d68-0d1f6d9f3b11")
        assert entra.log_in(claims | {"iss": foreign}) >= 400
        assert not User.objects.exists()


class TestGoogle:
    CLAIMS = {
        "sub": "110169484474386276334", "azp": CLIENT_ID, "email": "ann@example.com", "email_verified": True,
        "name": "Ann Example", "picture": "https://lh3.googleusercontent.com/a", "given_name": "Ann",
    }  # fmt: skip

    @pytest.fixture
    def google(self, client) -> Iterator[Product]:
        with product_at(client, "Google", **NO_LOGOUT) as product:
            yield product

    def test_the_organisation_decides_who_comes_in(self, client, google):
        domain = granted_by("Google", "hd")
        assert google.log_in(self.CLAIMS) == 403  # a private account
        assert google.log_in(self.CLAIMS | {"hd": "evil.example"}) == 403
        assert not User.objects.exists()
        assert google.log_in(self.CLAIMS | {"hd": domain}) == 200
        assert roles("ann@example.com") == {"user"}
        assert not leads_on(client, google.issuer)


class TestOkta:
    CLAIMS = {
        "sub": "00uid4BxXw6I6TV4m0g3", "ver": 1, "amr": ["pwd"], "idp": "00ok1u7AsAkrwdZL3z0g3", "sid": "102",
        "preferred_username": "ann@example.com", "name": "Ann Example", "email": "ann@example.com",
    }  # fmt: skip

    @pytest.mark.parametrize(("number", "path"), [(0, ""), (1, "/oauth2/default")])
    def test_groups_come_with_their_scope(self, client, number, path):
        new_admin()
        with product_at(client, "Okta", number) as okta:
            assert urlsplit(okta.issuer.url).path == path
            assert "groups" in okta.sign_on.begin()["scope"].split()
            groups = ["Everyone", granted_by("Okta", "groups")]
            assert okta.log_in(self.CLAIMS | {"groups": ["Everyone"]}) == 403
            assert okta.log_in(self.CLAIMS | {"groups": groups}) == 200
            assert roles("ann@example.com") == {"admin"}
            assert report(client, okta.issuer.logout_token(sub=self.CLAIMS["sub"], sid="102")) == 200
            assert not is_logged_in(client)


@pytest.mark.parametrize("name", re.findall(r"^### (.*)$", PAGE, re.MULTILINE))
def test_the_gateway_asks_for_the_scopes_of_the_page(client, name):
    with product_at(client, name) as product:
        assert [product.sign_on.begin()["scope"]] == settings_of(name)["scopes"]
