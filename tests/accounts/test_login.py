"""Logging in with a password, over HTTP."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts import sessions
from accounts.models import Session
from accounts.services import create_user
from gateway_project.errors import AuthenticationFailed
from telemetry.models import LogEntry
from tests.support.logins import by_password, by_refresh, cookies_of, logged_in, works
from tests.support.management import PASSWORD, body, new_user, refused

pytestmark = pytest.mark.either_store


class TestPasswords:
    def test_a_password_sets_both_cookies_as_they_are_specified(self, nobody, ann, settings):
        response = by_password(nobody)
        assert (response.status_code, response.json().keys()) == (200, {"code", "message"})
        assert response.json()["code"] == 200
        assert response.headers["Content-Type"] == "application/vnd.api+json; charset=utf-8"
        cookies = cookies_of(response)
        assert cookies.keys() == {"SvcUserCookie", "SvcAuthCookie"}
        for name, path, seconds in (("SvcUserCookie", "/", 900), ("SvcAuthCookie", "/auth", 604800)):
            cookie = cookies[name]
            assert (cookie["httponly"], cookie["secure"], cookie["samesite"]) == (True, True, "Strict")
            assert (cookie["path"], cookie["max-age"], cookie["domain"]) == (path, str(seconds), "")
        assert works(nobody, cookies["SvcUserCookie"].value)

    def test_the_form_of_the_answer_is_the_same_for_application_json(self, nobody, ann):
        response = by_password(nobody, flat=True)
        assert response.headers["Content-Type"] == "application/json"
        assert response.json().keys() == {"code", "message"}

    def test_a_session_remembers_device_and_address_and_the_user_the_login(self, nobody, ann):
        by_password(nobody, headers={"User-Agent": "test " + "x" * 300})
        session = Session.objects.get()
        assert (session.user, session.address, session.device) == (ann, "127.0.0.1", ("test " + "x" * 300)[:256])
        ann.refresh_from_db()
        assert timezone.now() - ann.last_login < timedelta(seconds=10)

    def test_a_name_is_known_in_any_case(self, nobody, ann):
        assert by_password(nobody, username="aNN").status_code == 200

    def test_unknown_wrong_inactive_and_deleted_are_told_alike(self, nobody, ann):
        new_user(username="inactive", is_active=False)
        new_user(username="deleted", is_deleted=True)
        answers = {
            by_password(nobody, **wrong).content
            for wrong in (
                {"password": "wrong"},
                {"password": PASSWORD + " "},
                {"username": "nobody"},
                {"username": "x" * 900},
                {"username": "inactive"},
                {"username": "deleted"},
            )
        }
        assert len(answers) == 1
        refused(by_password(nobody, password="wrong"), 401, "AuthenticationFailed")
        assert not Session.objects.exists()

    def test_an_unknown_name_costs_the_same_hash(self, nobody, db, settings):
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
        sessions._dummy_password_hash.cache_clear()  # other tests hash cheaply
        create_user(username="slow", password=PASSWORD)
        values = {"slow": [], "nobody": []}
        for _ in range(4):
            for name, times in values.items():
                begun = time.process_time()  # whatever else the machine does meanwhile
                with pytest.raises(AuthenticationFailed):
                    sessions.verify_password(username=name, password="wrong", address="192.0.2.7")
                times.append(time.process_time() - begun)
        assert 0.6 < min(values["slow"]) / min(values["nobody"]) < 1.6
        sessions._dummy_password_hash.cache_clear()

    @pytest.mark.parametrize(
        "payload",
        [
            {},
            {"grantType": "password"},
            {"grantType": "password", "userName": "Ann"},
            {"grantType": "password", "password": PASSWORD},
            {"grantType": "password", "userName": "", "password": PASSWORD},
            {"grantType": "password", "userName": "Ann", "password": ""},
            {"grantType": "password", "userName": "Ann", "password": None},
            {"grantType": "password", "userName": ["Ann"], "password": PASSWORD},
            {"grantType": "password", "userName": "Ann", "password": 5},
            {"grantType": "password", "userName": "Ann", "password": "x" * 5000},
            {"grantType": "password", "userName": "a\0b", "password": PASSWORD},
            {"grantType": "password", "userName": "Ann", "password": "a\0b"},
            {"grantType": "password", "tokenType": "accessToken", "userName": "Ann", "password": PASSWORD},
            {"grantType": "magic"},
            {"grantType": ["password"]},
            {"grantType": {}},
            {"grantType": "Bearer"},
            {"grantType": "Bearer", "tokenType": "magic"},
            {"grantType": "Bearer", "tokenType": "accessToken"},
            {"grantType": "Bearer", "tokenType": "accessToken", "accessToken": 5},
            {"grantType": "Bearer", "tokenType": "refreshToken"},
            {"grantType": "Bearer", "tokenType": "refreshToken", "refreshToken": {}},
            {"grantType": "password", "userName": "Ann", "password": PASSWORD, "isAdmin": True},
        ],
        ids=str,
    )
    def test_a_login_that_is_not_of_the_right_form_gets_400(self, nobody, ann, payload):
        response = nobody.send("POST", "/auth/login", json=body(**payload))
        assert PASSWORD not in refused(response, 400, "ValidationError")

    @pytest.mark.parametrize("wrong", ["bearer", ["password"], True], ids=str)
    def test_a_wrong_choice_is_told_which_there_are(self, nobody, ann, wrong):
        result = "Must be one of " if isinstance(wrong, str) else "Must be a text."
        login = nobody.post("/auth/login", grantType=wrong)
        assert f"grantType: {result}" in refused(login, 400, "ValidationError")
        tokens = nobody.post("/auth/login", grantType="Bearer", tokenType=wrong)
        assert f"tokenType: {result}" in refused(tokens, 400, "ValidationError")
        logout = nobody.as_user(ann).post("/auth/logout", logoutDevice=wrong)
        assert f"logoutDevice: {result}" in refused(logout, 400, "ValidationError")
        if isinstance(wrong, str):
            assert "'password', 'Bearer'" in login.json()["message"]
            assert "'currentDevice', 'otherDevices', 'allDevices'" in logout.json()["message"]

    def test_an_old_credential_does_not_stand_in_the_way_of_a_login(self, nobody, ann):
        old = {"Authorization": "Bearer old", "Cookie": "SvcUserCookie=old; SvcAuthCookie=old"}
        assert by_password(nobody, headers=old).status_code == 200


class TestWhatTheLogIsTold:
    def entry_of(self, response):
        """Severity, user and sentence of the entry that a request left; None if it left none."""
        entry = LogEntry.objects.filter(correlation_id=response.headers["X-Svc-Request-ID"]).first()
        if entry is None:
            return None
        assert (entry.entry_type, entry.address) == ("Message", "127.0.0.1")
        assert PASSWORD not in entry.message + entry.payload
        return entry.severity, entry.username, entry.message

    def test_a_login_and_a_failed_one(self, nobody, ann):
        assert self.entry_of(by_password(nobody)) == ("info", "ann", "ann logged in.")
        assert LogEntry.objects.get().user_id == ann.pk
        wrong = by_password(nobody, password="wr0ng")
        assert self.entry_of(wrong) == ("warning", "ann", "The password for ann was wrong.")
        new_user(username="bob", is_active=False)
        severity, name, message = self.entry_of(by_password(nobody, username="bob"))
        assert (severity, name) == ("warning", "bob")
        assert "inactive" in message
        assert "wr0ng" not in "".join(LogEntry.objects.values_list("payload", flat=True))

    def test_a_name_that_nobody_has_stays_out_of_the_log(self, nobody, ann):
        """People type their password into the wrong field."""
        severity, name, message = self.entry_of(by_password(nobody, username="hunter2 is my secret"))
        assert (severity, name) == ("warning", "")
        assert LogEntry.objects.get().user_id is None
        assert "hunter2" not in message + LogEntry.objects.get().payload

    def test_of_refused_guesses_only_the_first_is_told(self, nobody, ann, settings):
        settings.GATEWAY_LOGIN_FAILURES, settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS = 3, 6
        answers = [by_password(nobody, password="wrong") for _ in range(12)]
        assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 9
        assert self.entry_of(answers[3])[1:] == (
            "ann",
            "Too many wrong passwords from this address. Further attempts are refused for a while.",
        )
        assert LogEntry.objects.count() == 4
        codes = [by_password(nobody, username=f"guess{number}").status_code for number in range(20)]
        assert 3 <= codes.count(401) < 10
        codes += [by_password(nobody, username="guess0").status_code for _ in range(5)]
        assert LogEntry.objects.count() == 4 + codes.count(401) + 1

    def test_a_form_error_is_not_told(self, nobody, ann):
        assert self.entry_of(by_password(nobody, password="")) is None

    def test_a_logout_says_how_many_sessions_ended(self, nobody, ann):
        credentials = [logged_in(nobody) for _ in range(3)]
        client = nobody.with_credential(credentials[0]["SvcUserCookie"])
        others, again, own = (
            self.entry_of(client.post("/auth/logout", logoutDevice=device))
            for device in ("otherDevices", "otherDevices", "currentDevice")
        )
        assert others == ("info", "ann", "ann logged out (otherDevices): 2 sessions ended.")
        assert again is None
        assert own == ("info", "ann", "ann logged out (currentDevice): 1 session ended.")

    def test_a_refresh_token_used_twice_is_told_once(self, nobody, ann):
        credentials = logged_in(nobody)["SvcAuthCookie"]
        assert self.entry_of(by_refresh(nobody, credentials)) is None
        severity, name, message = self.entry_of(by_refresh(nobody, credentials))
        assert (severity, name) == ("error", "ann")
        assert "used twice" in message
        assert credentials not in "".join(LogEntry.objects.values_list("payload", flat=True))
        assert self.entry_of(by_refresh(nobody, credentials)) is None

    def test_a_wrong_current_password_is_told_though_nothing_is_changed(self, as_ann):
        response = as_ann.patch("/users/", newPassword="another one", currentPassword="wr0ng")
        assert response.status_code == 400
        assert self.entry_of(response) == ("warning", "ann", "The password for ann was wrong.")
