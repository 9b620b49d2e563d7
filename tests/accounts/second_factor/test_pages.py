"""The pages for second factors, in the console and among those for users: setup, login, removal."""

import pytest
from django.test import Client

from accounts.models import AuthenticatorApp, RecoveryCode, Role, Session, User
from accounts.second_factor import pending
from accounts.sessions import start_session
from telemetry.audit.models import AuditEntry
from tests.support.management import PASSWORD
from tests.support.second_factor import code_of, codes_on, new_app, secret_on
from tests.support.second_factor_pages import actions, enter, give, is_in

pytestmark = [pytest.mark.django_db, pytest.mark.either_store, pytest.mark.usefixtures("own_throttle")]


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
