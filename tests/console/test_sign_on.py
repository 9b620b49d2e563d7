"""Single sign-on in a real browser: the cookies survive the way to the provider and back, and the pages in between."""

import threading
from collections.abc import Iterator

import oidc_provider_mock
import pytest
import requests

from tests.console.conftest import stand_still


@pytest.fixture
def corp(orm) -> Iterator[str]:
    """The slug of a provider, at which two people can log in."""
    from accounts.sso.services import create_identity_provider, delete_identity_provider

    with oidc_provider_mock.run_server_in_thread() as server:
        url = f"http://localhost:{server.server_port}"
        people = {"boss": ["bosses"], "ann": []}
        for name, groups in people.items():
            claims = {"preferred_username": f"sso-{name}", "groups": groups}
            assert requests.put(f"{url}/users/{name}", json=claims, timeout=10).status_code == 204
        rules = "groups contains bosses → role admin\nalways → role user"
        options = {"name": "Example Corp", "slug": f"corp-{threading.get_native_id()}", "create_users": True}
        row = create_identity_provider(issuer=url, client_id="gateway", client_secret="secret", rules=rules, **options)
        yield row.slug
        delete_identity_provider(row)


def authenticate(page, name: str) -> None:
    """At the provider: say who one is."""
    page.click("text=Continue with Example Corp")
    page.fill("input[name=sub]", name)
    page.keyboard.press("Enter")


def test_from_the_console_to_the_provider_and_back_and_out_again(visitor, corp):
    window = visitor()
    page = window.page
    page.goto(f"{window.url}/admin/accounts/group/")
    stand_still(page)
    assert window.check() == []
    authenticate(page, "boss")
    page.wait_for_url(f"{window.url}/admin/accounts/group/")
    assert "sso-boss" in page.content()
    page.goto(f"{window.url}/me/")
    page.click("text=Log out")
    page.wait_for_url("**/oauth2/end_session**")
    page.goto(f"{window.url}/admin/")
    assert page.url.startswith(f"{window.url}/admin/login/")


def test_an_ordinary_user_comes_to_their_own_pages(visitor, corp):
    window = visitor("phone")
    page = window.page
    page.goto(f"{window.url}/me/login/")
    stand_still(page)
    assert window.check() == []
    authenticate(page, "ann")
    page.wait_for_url(f"{window.url}/me/")
    assert "sso-ann" in page.content()
    page.goto(f"{window.url}/admin/")
    assert page.url == f"{window.url}/me/"


def test_the_page_of_a_refused_login_leads_back(visitor, corp):
    window = visitor()
    window.page.goto(f"{window.url}/auth/sso/{corp}/callback/?state=of-another&code=abc")
    assert "Login not possible" in window.page.content()
    window.page.click("text=To the login")
    window.page.wait_for_url(f"{window.url}/me/login/")
