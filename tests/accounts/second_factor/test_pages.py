"""The pages for second factors, in the console and among those for users: setup, login, removal."""

import json
import re
import secrets

import pytest
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client
from fido2.utils import websafe_encode

from accounts.models import AuthenticatorApp, Passkey, RecoveryCode, Role, Session, User
from accounts.second_factor import pending
from accounts.sessions import start_session
from telemetry.audit.models import AuditEntry
from tests.support.management import PASSWORD, new_admin, new_user
from tests.support.second_factor import Device, code_of, codes_on, new_app, secret_on

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
ORIGIN = "http://testserver"
OPTIONS = re.compile(r'<script id="passkey-options" type="application/json">(.*?)</script>')
SITES = ["me", "admin"]


@pytest.fixture(autouse=True)
def own_throttle(settings):
    """What others count in the same cache is theirs."""
    prefix = secrets.token_hex(6)
    settings.CACHES = {name: {**cache, "KEY_PREFIX": prefix} for name, cache in settings.CACHES.items()}


@pytest.fixture(params=SITES)
def site(request) -> str:
    return request.param


@pytest.fixture
def user(db) -> User:
    """Whom both sites admit."""
    return new_admin(username="boss")


def enter(client: Client, site: str, username: str = "boss", password: str = PASSWORD, **more):
    """The first step of a login."""
    return client.post(f"/{site}/login/", {"username": username, "password": password, **more})


def give(client: Client, site: str, **values):
    """The second step."""
    return client.post(f"/{site}/login/code/", values)


def is_in(client: Client, site: str) -> bool:
    return client.get(f"/{site}/second-factor/").status_code == 200


def options_on(page) -> dict:
    return json.loads(OPTIONS.search(page.text).group(1))


@pytest.fixture
def browser(client, user, site) -> Client:
    """Logged in with the password alone."""
    assert enter(client, site).status_code == 302
    return client


def actions() -> list[str]:
    return list(AuditEntry.objects.filter(resource="users").order_by("id").values_list("action", flat=True))


class TestAnApp:
    @pytest.mark.long
    def test_it_is_set_up_with_its_first_code(self, browser, user, site):
        page = browser.get(f"/{site}/second-factor/app/")
        secret = secret_on(page.text)
        assert "<svg" in page.text
        assert f"secret={secret.replace(' ', '')}" in page.text
        assert "no-store" in page.headers["Cache-Control"]
        assert secret_on(browser.get(f"/{site}/second-factor/app/").text) == secret, "a page that is loaded again"
        response = browser.post(f"/{site}/second-factor/app/", {"code": code_of(secret), "current_password": PASSWORD})
        codes = codes_on(response.text)
        assert len(set(codes)) == 10
        app = AuthenticatorApp.objects.get(user=user)
        assert app.opened_secret() == secret.replace(" ", "")
        assert app.opened_secret() not in app.credential
        assert not RecoveryCode.objects.filter(digest__in=codes).exists()
        assert actions() == ["set up authenticator app"]
        overview = browser.get(f"/{site}/second-factor/").text
        assert "10 of 10" in overview
        assert not codes_on(overview)
        assert app.opened_secret() not in overview

    @pytest.mark.parametrize(
        "values",
        [{"code": ""}, {"code": "000000"}, {"code": "right"}, {"code": "right", "current_password": "wrong"}],
        ids=str,
    )
    def test_it_needs_the_code_and_the_password(self, browser, site, values):
        secret = secret_on(browser.get(f"/{site}/second-factor/app/").text)
        values = {"current_password": PASSWORD} | values if values.get("code") == "000000" else values
        values = values | ({"code": code_of(secret)} if values.get("code") == "right" else {})
        response = browser.post(f"/{site}/second-factor/app/", values)
        assert response.status_code == 200
        assert 'role="alert"' in response.text
        assert not AuthenticatorApp.objects.exists()

    @pytest.mark.long
    def test_other_sessions_end_and_this_one_goes_on(self, browser, user, site):
        other, _ = start_session(user)
        secret = secret_on(browser.get(f"/{site}/second-factor/app/").text)
        browser.post(f"/{site}/second-factor/app/", {"code": code_of(secret), "current_password": PASSWORD})
        assert not Session.objects.live().filter(pk=other).exists()
        assert is_in(browser, site)

    @pytest.mark.long
    def test_it_can_be_replaced_which_keeps_the_recovery_codes(self, browser, user, site):
        former = new_app(user)
        start_in(browser, site, former)
        secret = secret_on(browser.get(f"/{site}/second-factor/app/").text)
        response = browser.post(f"/{site}/second-factor/app/", {"code": code_of(secret), "current_password": PASSWORD})
        assert response.status_code == 302
        assert AuthenticatorApp.objects.get().opened_secret() == secret.replace(" ", "")
        assert RecoveryCode.objects.unused().count() == 10
        assert actions()[-1] == "replace authenticator app"

    def test_it_is_removed_with_the_password(self, client, user, site):
        start_in(client, site, new_app(user))
        other, _ = start_session(user)
        path = f"/{site}/second-factor/app/remove/"
        assert client.get(path).status_code == 200
        assert "wrong" in client.post(path, {"current_password": "x"}).text
        assert AuthenticatorApp.objects.exists()
        assert client.post(path, {"current_password": PASSWORD}).status_code == 302
        assert not AuthenticatorApp.objects.exists()
        assert not RecoveryCode.objects.exists()
        assert not Session.objects.live().filter(pk=other).exists()
        assert actions()[-1] == "remove authenticator app"

    def test_a_factor_that_a_role_requires_stays(self, client, user, site):
        start_in(client, site, new_app(user))
        Role.objects.filter(name="admin").update(requires_second_factor=True)
        response = client.post(f"/{site}/second-factor/app/remove/", {"current_password": PASSWORD})
        assert "requires a second factor" in response.text
        assert AuthenticatorApp.objects.exists()

    @pytest.mark.long
    def test_recovery_codes_are_made_anew(self, client, user, site):
        app = new_app(user)
        start_in(client, site, app)
        response = client.post(f"/{site}/second-factor/codes/", {"current_password": PASSWORD})
        codes = codes_on(response.text)
        assert len(codes) == 10
        assert not set(codes) & set(app.recovery_codes)
        assert RecoveryCode.objects.count() == 10


def start_in(client: Client, site: str, app) -> None:
    """Log in with password and app."""
    assert enter(client, site).headers["Location"] == f"/{site}/login/code/"
    assert give(client, site, code=app.code()).status_code == 302


class TestTheLogin:
    def test_the_session_begins_with_both(self, client, user, site):
        app = new_app(user)
        assert enter(client, site).headers["Location"] == f"/{site}/login/code/"
        assert not Session.objects.exists()
        assert not is_in(client, site)
        page = client.get(f"/{site}/login/code/")
        assert page.status_code == 200
        assert "no-store" in page.headers["Cache-Control"]
        assert 'role="alert"' in give(client, site, code="000001").text
        assert not is_in(client, site)
        response = give(client, site, code=app.code())
        assert (response.status_code, response.headers["Location"]) == (302, f"/{site}/")
        assert is_in(client, site)
        assert Session.objects.get().user == user
        assert client.get(f"/{site}/login/code/").headers["Location"] == f"/{site}/login/", "used up"

    def test_with_a_recovery_code_once(self, client, user, site):
        app = new_app(user)
        enter(client, site)
        assert give(client, site, code=app.recovery_codes[3]).status_code == 302
        client.logout()
        enter(client, site)
        assert give(client, site, code=app.recovery_codes[3]).status_code == 200
        assert AuditEntry.objects.filter(message="boss used a recovery code; 9 are left.").count() == 1

    def test_without_the_first_step_there_is_no_second(self, client, user, site):
        app = new_app(user)
        for response in (client.get(f"/{site}/login/code/"), give(client, site, code=app.code())):
            assert response.headers["Location"] == f"/{site}/login/"
        assert not Session.objects.exists()

    def test_each_step_has_a_cookie_of_its_own(self, client, user, site):
        """What somebody has planted in this browser before opens nothing."""
        app = new_app(user)
        client.get(f"/{site}/login/")
        session = client.session
        session["planted"] = 1
        session.save()
        client.cookies["SvcConsole"] = session.session_key
        enter(client, site)
        between = client.cookies["SvcConsole"].value
        give(client, site, code=app.code())
        after = client.cookies["SvcConsole"].value
        assert len({session.session_key, between, after}) == 3
        for former in (session.session_key, between):
            stranger = Client()
            stranger.cookies["SvcConsole"] = former
            assert not is_in(stranger, site)
            assert give(stranger, site, code=app.code(1)).headers["Location"] == f"/{site}/login/"

    def test_the_first_step_is_for_one_site(self, client, user):
        app = new_app(user)
        enter(client, "me")
        assert give(client, "admin", code=app.code()).headers["Location"] == "/admin/login/"

    def test_it_waits_ten_minutes(self, client, user, site, monkeypatch):
        app = new_app(user)
        monkeypatch.setattr(pending, "LIFETIME_SECONDS", -1)
        enter(client, site)
        assert give(client, site, code=app.code()).headers["Location"] == f"/{site}/login/"

    @pytest.mark.parametrize("change", ["password", "is_active"])
    def test_a_change_of_the_user_ends_it(self, client, user, site, change):
        app = new_app(user)
        enter(client, site)
        User.objects.filter(pk=user.pk).update(**{change: "" if change == "password" else False})
        assert give(client, site, code=app.code()).headers["Location"] == f"/{site}/login/"

    def test_wrong_codes_count_in_the_throttle(self, client, user, site, settings):
        settings.GATEWAY_LOGIN_FAILURES = 3
        app = new_app(user)
        enter(client, site)
        for _ in range(3):
            assert "The code is wrong" in give(client, site, code="abc").text
        assert "Too many failed logins" in give(client, site, code=app.code()).text
        assert not Session.objects.exists()

    @pytest.mark.parametrize(
        ("target", "end"),
        [("https://evil.example/", ""), ("//evil.example/", ""), ("{site}second-factor/", "second-factor/")],
    )
    def test_it_leads_to_no_other_host(self, client, user, site, target, end):
        app = new_app(user)
        enter(client, site, next=target.format(site=f"/{site}/"))
        assert give(client, site, code=app.code()).headers["Location"] == f"/{site}/{end}"

    def test_the_console_refuses_users_before_it_asks_for_a_code(self, client, ann):
        new_app(ann)
        response = enter(client, "admin", "ann")
        assert "for users with the role admin" in response.text
        assert client.get("/admin/login/code/").headers["Location"] == "/admin/login/"

    def test_a_form_of_another_site_is_refused(self, user, site):
        new_app(user)
        strict = Client(enforce_csrf_checks=True)
        assert strict.post(f"/{site}/login/code/", {"code": "123456"}).status_code == 403


class TestARoleThatRequiresIt:
    @pytest.fixture(autouse=True)
    def requiring(self, db):
        Role.objects.filter(name="user").update(requires_second_factor=True)

    @pytest.mark.long
    def test_the_login_begins_with_setting_one_up(self, client, user, site):
        assert enter(client, site).headers["Location"] == f"/{site}/login/code/"
        page = client.get(f"/{site}/login/code/")
        secret = secret_on(page.text)
        assert not is_in(client, site)
        assert 'role="alert"' in give(client, site, code="000001").text
        assert not Session.objects.exists()
        response = give(client, site, code=code_of(secret))
        assert len(codes_on(response.text)) == 10
        assert f'href="/{site}/"' in response.text
        assert is_in(client, site)
        assert actions() == ["set up authenticator app"]
        assert AuditEntry.objects.get(action="set up authenticator app").actor == "boss"

    def test_whoever_has_set_one_up_meanwhile_is_asked_for_it(self, client, user, site):
        enter(client, site)
        secret = secret_on(client.get(f"/{site}/login/code/").text)
        app = new_app(user)
        assert "The code is wrong" in give(client, site, code=code_of(secret)).text
        assert AuthenticatorApp.objects.get().opened_secret() == app.secret

    def test_who_logs_in_with_a_provider_is_not_asked(self, client, user):
        """Its session does not begin with a password."""
        session_id, _ = start_session(user)
        assert Session.objects.live().filter(pk=session_id).exists()


class TestPasskeys:
    @pytest.fixture
    def device(self) -> Device:
        return Device(ORIGIN)

    def register(self, browser, site, device, **values):
        path = f"/{site}/second-factor/passkeys/new/"
        answer = device.make(options_on(browser.get(path)))
        return browser.post(path, {"name": "key", "current_password": PASSWORD, "credential": answer, **values})

    @pytest.fixture
    def registered(self, browser, user, site, device) -> Device:
        assert len(codes_on(self.register(browser, site, device).text)) == 10
        browser.logout()
        return device

    @pytest.mark.long
    def test_one_is_added_and_logs_in(self, registered, browser, user, site):
        assert actions() == ["add passkey"]
        assert enter(browser, site).headers["Location"] == f"/{site}/login/code/"
        options = options_on(browser.get(f"/{site}/login/code/"))
        assert options["userVerification"] == "preferred"
        response = give(browser, site, credential=registered.sign(options))
        assert (response.status_code, response.headers["Location"]) == (302, f"/{site}/")
        assert is_in(browser, site)
        passkey = Passkey.objects.get()
        assert (passkey.sign_count, passkey.rp_id) == (1, "testserver")
        assert passkey.last_used_at

    @pytest.mark.long
    def test_a_count_that_does_not_rise_is_refused(self, registered, browser, user, site):
        Passkey.objects.update(sign_count=5)
        enter(browser, site)
        options = options_on(browser.get(f"/{site}/login/code/"))
        assert "not accepted" in give(browser, site, credential=registered.sign(options)).text
        assert AuditEntry.objects.filter(message__contains="may be a copy").exists()
        assert not is_in(browser, site)

    @pytest.mark.long
    @pytest.mark.parametrize("field", ["authenticatorData", "signature", "clientDataJSON"])
    def test_an_answer_of_a_wrong_form_is_refused(self, registered, browser, user, site, field):
        enter(browser, site)
        answer = json.loads(registered.sign(options_on(browser.get(f"/{site}/login/code/"))))
        # CBOR that ends in the middle, behind the flag that an extension follows.
        answer["response"][field] = websafe_encode(bytes(32) + b"\x81" + bytes(4) + b"\xb9\x00")
        response = give(browser, site, credential=json.dumps(answer))
        assert response.status_code == 200
        assert "not accepted" in response.text

    def test_a_new_one_of_a_wrong_form_is_refused(self, browser, user, site, device):
        path = f"/{site}/second-factor/passkeys/new/"
        answer = json.loads(device.make(options_on(browser.get(path))))
        answer["response"]["attestationObject"] = websafe_encode(b"\xb9\x00")
        values = {"name": "key", "current_password": PASSWORD, "credential": json.dumps(answer)}
        assert browser.post(path, values).status_code == 200
        assert not Passkey.objects.exists()

    @pytest.mark.long
    def test_a_challenge_is_for_one_use_in_one_browser(self, registered, browser, user, site):
        enter(browser, site)
        options = options_on(browser.get(f"/{site}/login/code/"))
        answer = registered.sign(options)
        other = Client()
        enter(other, site)
        other.get(f"/{site}/login/code/")
        assert "not accepted" in give(other, site, credential=answer).text
        between = browser.cookies["SvcConsole"].value
        row = BrowserSession.objects.get(pk=browser.session._get_session_from_db().pk)
        assert give(browser, site, credential=answer).status_code == 302
        BrowserSession(session_key=row.session_key, session_data=row.session_data, expire_date=row.expire_date).save()
        thief = Client()  # the same session and the same answer once more, as if both had come at once
        thief.cookies["SvcConsole"] = between
        Passkey.objects.update(sign_count=0)
        assert "not accepted" in give(thief, site, credential=answer).text

    @pytest.mark.parametrize("origin", ["http://evil.example", "http://testserver.evil.example", "https://testserver"])
    def test_the_page_must_be_ours(self, browser, site, origin):
        assert "not accepted" in self.register(browser, site, Device(origin)).text
        assert not Passkey.objects.exists()

    @pytest.mark.long
    def test_another_device_is_refused(self, registered, browser, site):
        enter(browser, site)
        options = options_on(browser.get(f"/{site}/login/code/"))
        other = Device(ORIGIN, id=registered.id)
        assert "not accepted" in give(browser, site, credential=other.sign(options)).text

    @pytest.mark.long
    @pytest.mark.parametrize("answer", ["x", "{}", "[]", "null", "1", '{"id": 1}', "[" * 30_000, '{"rawId": "é"}'])
    def test_any_answer_gets_a_page(self, registered, browser, site, answer):
        enter(browser, site)
        browser.get(f"/{site}/login/code/")
        assert "not accepted" in give(browser, site, credential=answer).text

    @pytest.mark.parametrize("answer", ["", "x", "{}", "[]", "null", '{"id": 1, "rawId": 1, "response": 1}'])
    def test_any_new_passkey_gets_a_page(self, browser, site, answer):
        browser.get(f"/{site}/second-factor/passkeys/new/")
        values = {"name": "key", "current_password": PASSWORD, "credential": answer}
        assert "not accepted" in browser.post(f"/{site}/second-factor/passkeys/new/", values).text

    @pytest.mark.long
    def test_there_can_be_several_and_each_can_be_removed(self, browser, user, site, device):
        self.register(browser, site, device)
        assert self.register(browser, site, Device(ORIGIN), name="spare").status_code == 302
        assert "with this name" in self.register(browser, site, Device(ORIGIN), name="spare").text
        assert "with this name" in self.register(browser, site, device, name="third").text
        for passkey in Passkey.objects.all():
            path = f"/{site}/second-factor/passkeys/{passkey.pk}/remove/"
            assert browser.post(path, {"current_password": PASSWORD}).status_code == 302
        assert not Passkey.objects.exists()
        assert not RecoveryCode.objects.exists()
        assert actions() == ["add passkey", "add passkey", "remove passkey", "remove passkey"]

    @pytest.mark.long
    def test_nobody_removes_that_of_another_user(self, browser, site, device):
        self.register(browser, site, device)
        row = Passkey.objects.get()
        row.user = new_user()
        row.save()
        for row_id in (row.pk, 2**70):
            path = f"/{site}/second-factor/passkeys/{row_id}/remove/"
            assert browser.post(path, {"current_password": PASSWORD}).status_code == 404
        assert Passkey.objects.exists()


def test_users_of_a_provider_have_no_second_factor_here(client, user, site):
    enter(client, site)
    user.set_unusable_password()
    User.objects.filter(pk=user.pk).update(password=user.password)
    session = client.session
    session["_auth_user_hash"] = User.objects.get(pk=user.pk).get_session_auth_hash()
    session.save()
    assert "identity provider" in client.get(f"/{site}/second-factor/").text
    for path in ("app/", "passkeys/new/", "codes/", "app/remove/"):
        assert client.get(f"/{site}/second-factor/{path}").status_code == 403


def test_without_a_login_each_page_leads_to_it(client, site, db):
    for path in ("", "app/", "app/remove/", "passkeys/new/", "passkeys/1/remove/", "codes/"):
        assert client.get(f"/{site}/second-factor/{path}").status_code == 302
        assert client.post(f"/{site}/second-factor/{path}").status_code == 302
