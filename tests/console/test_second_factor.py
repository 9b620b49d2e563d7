"""The second factor in a real browser: an app's QR code, and passkeys of a virtual authenticator."""

import pytest

from tests.console.conftest import Console, stand_still
from tests.support.management import PASSWORD, new_admin, new_user
from tests.support.second_factor import code_of, codes_on, new_app
from tests.support.thoroughness import first_of

DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def window(visitor) -> Console:
    """At localhost: passkeys belong to host names, which an address is not."""
    return at_localhost(visitor())


def at_localhost(window: Console) -> Console:
    window.url = window.url.replace("127.0.0.1", "localhost")
    return window


def plug_in(window: Console):
    """A device that makes and keeps passkeys, and says yes to everything; a function that lists what it keeps."""
    protocol = window.page.context.new_cdp_session(window.page)
    protocol.send("WebAuthn.enable")
    name = protocol.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})["authenticatorId"]
    return lambda: protocol.send("WebAuthn.getCredentials", {"authenticatorId": name})["credentials"]


def enter(window: Console, site: str, user, password: str = PASSWORD) -> None:
    page = window.page
    page.goto(f"{window.url}/{site}/login/")
    page.fill("input[name=username]", user.username)
    page.fill("input[name=password]", password)
    page.click("main button[type=submit]" if site == "me" else "#login-form button[type=submit]")
    stand_still(page)


def submit(window: Console, **fields: str) -> None:
    for name, value in fields.items():
        window.page.fill(f"input[name={name}]", value)
    window.page.locator("form:has(input[name=current_password]) button[type=submit]").click()
    stand_still(window.page)


@pytest.mark.parametrize("site", first_of("admin", "me"))
def test_a_passkey_is_made_logs_in_and_is_removed(window, orm, site):
    page, user, passkeys = window.page, new_admin(), plug_in(window)
    enter(window, site, user)
    page.goto(f"{window.url}/{site}/second-factor/")
    page.click("text=Add a passkey")
    stand_still(page)
    assert window.check() == []
    submit(window, name="laptop", current_password=PASSWORD)
    page.wait_for_selector("#codes")
    assert len(codes_on(page.inner_text("#codes"))) == 10
    assert window.check() == []
    (credential,) = passkeys()
    assert credential["rpId"] == "localhost"

    page.context.clear_cookies()
    enter(window, site, user)
    assert page.url == f"{window.url}/{site}/login/code/"
    assert window.check() == []
    page.click("text=Use a passkey")
    page.wait_for_url(f"{window.url}/{site}/")
    assert passkeys()[0]["signCount"] > credential["signCount"]
    assert user.passkeys.get().sign_count == passkeys()[0]["signCount"]

    page.goto(f"{window.url}/{site}/second-factor/")
    assert "laptop" in page.inner_text("#main table" if site == "me" else "table")
    page.get_by_label("Remove the passkey laptop").click()
    submit(window, current_password=PASSWORD)
    assert not user.passkeys.exists()
    assert window.check() == []


def test_a_device_without_the_passkey_says_so_and_the_code_still_helps(window, orm):
    page, user = window.page, new_user()
    app = new_app(user)
    plug_in(window)
    enter(window, "me", user)
    page.goto(f"{window.url}/me/login/code/")
    assert page.locator("text=Use a passkey").count() == 0
    page.fill("input[name=code]", app.code())
    page.keyboard.press("Enter")
    page.wait_for_url(f"{window.url}/me/")


@pytest.mark.timeout(300)  # many pages, each in three looks
@pytest.mark.parametrize("site", ["me", "admin"])
def test_every_page_is_whole(visitor, orm, site):
    window, user = at_localhost(visitor()), new_admin()
    page = window.page
    enter(window, site, user)
    page.goto(f"{window.url}/{site}/second-factor/")
    assert window.check_looks() == {}
    page.click("text=Set up an app")
    stand_still(page)
    assert window.check_looks() == {}
    assert page.locator("[role=img] svg").bounding_box()["width"] > 100
    submit(window, code=code_of(page.inner_text("#secret")), current_password=PASSWORD)
    assert len(codes_on(page.inner_text("#codes"))) == 10
    assert window.check_looks() == {}
    page.click("text=Continue")
    stand_still(page)
    for path in ("", "app/", "app/remove/", "passkeys/new/", "codes/"):
        page.goto(f"{window.url}/{site}/second-factor/{path}")
        stand_still(page)
        assert window.check_looks() == {}, path
    page.context.clear_cookies()
    enter(window, site, user)
    assert window.check_looks() == {}
    page.fill("input[name=code]", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]")
    assert window.check_looks() == {}
