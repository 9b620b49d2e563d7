"""Staying logged in and logging out, over HTTP."""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session as ConsoleSession
from django.utils import timezone

from accounts import tokens
from accounts.models import Session
from accounts.sessions import delete_expired
from tests.support.logins import OWN, by_refresh, cookies_of, logged_in, with_cookies, works
from tests.support.management import PASSWORD, Client, body, new_admin, new_user, refused, token_of
from tests.support.pace import bound
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


class TestTokens:
    def test_an_access_token_is_told_to_be_good(self, nobody, ann):
        request = body(grantType="Bearer", tokenType="accessToken", accessToken=logged_in(nobody)["SvcUserCookie"])
        response = nobody.send("POST", "/auth/login", json=request)
        assert (response.status_code, response.json().keys()) == (200, {"code", "message"})
        assert not cookies_of(response)

    def test_a_refresh_gives_new_tokens_and_uses_up_the_old_one(self, nobody, ann):
        first = logged_in(nobody)
        response = by_refresh(nobody, first["SvcAuthCookie"])
        assert response.status_code == 200
        document = response.json()
        assert document.keys() == {"accessToken", "refreshToken", "grantType", "message"}
        assert document["grantType"] == "Bearer"
        assert works(nobody, document["accessToken"])
        cookies = {name: cookie.value for name, cookie in cookies_of(response).items()}
        assert cookies == {"SvcUserCookie": document["accessToken"], "SvcAuthCookie": document["refreshToken"]}
        assert by_refresh(nobody, document["refreshToken"]).status_code == 200

    @promise("S6: a stolen refresh token ends its session", target="401 for both", suite="attack")
    def test_a_refresh_token_used_twice_ends_its_whole_session_and_no_other(self, nobody, ann):
        first, other = logged_in(nobody), logged_in(nobody)
        document = by_refresh(nobody, first["SvcAuthCookie"]).json()
        refused(by_refresh(nobody, first["SvcAuthCookie"]), 401, "AuthenticationFailed")
        assert not works(nobody, document["accessToken"])
        assert not works(nobody, first["SvcUserCookie"])
        refused(by_refresh(nobody, document["refreshToken"]), 401, "AuthenticationFailed")
        assert works(nobody, other["SvcUserCookie"])

    def test_of_many_uses_at_the_same_moment_at_most_one_succeeds_and_the_session_ends(self, nobody, ann):
        for _ in range(3):
            token = logged_in(nobody)["SvcAuthCookie"]
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda _, token=token: by_refresh(nobody, token), range(8)))
            assert [answer.status_code for answer in answers].count(200) <= 1
            assert {answer.status_code for answer in answers} <= {200, 401}
            assert not Session.objects.live().exists()

    def test_a_refresh_prolongs_the_session(self, nobody, ann):
        token = logged_in(nobody)["SvcAuthCookie"]
        soon = timezone.now() + timedelta(hours=1)
        Session.objects.update(expires_at=soon)
        assert by_refresh(nobody, token).status_code == 200
        assert Session.objects.get().expires_at > soon + timedelta(days=6)

    def test_the_kinds_of_tokens_are_never_mixed_up(self, nobody, ann):
        credentials = logged_in(nobody)
        assert not works(nobody, credentials["SvcAuthCookie"])
        refused(by_refresh(nobody, credentials["SvcUserCookie"]), 401, "AuthenticationFailed")
        request = body(grantType="Bearer", tokenType="accessToken", accessToken=credentials["SvcAuthCookie"])
        refused(nobody.send("POST", "/auth/login", json=request), 401, "AuthenticationFailed")
        swapped = {"SvcUserCookie": credentials["SvcAuthCookie"]}
        refused(with_cookies(nobody, "GET", "/features/", swapped), 401, "AuthenticationFailed")

    @promise("V-L13, V-L14: tokens hold listed claims and no secret", target="the listed claims alone", suite="attack")
    def test_nothing_secret_is_in_a_token_and_no_token_in_the_database(self, nobody, ann):
        credentials = logged_in(nobody)
        for token in credentials.values():
            payload = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            assert claims.keys() == {"token_type", "sub", "sid", "jti", "iat", "exp", "aud", "iss"}
            stored = str(list(Session.objects.values()))
            assert token not in stored
            assert token.split(".")[2] not in stored
        values = tokens.read_refresh(credentials["SvcAuthCookie"])
        assert Session.objects.get().refresh_digest == values.digest
        assert values.digest not in credentials["SvcAuthCookie"]

    def test_refresh_tokens_expire(self, nobody, ann, settings):
        settings.GATEWAY_REFRESH_TOKEN_SECONDS = -60
        token, _ = tokens.issue_refresh(
            user_id=ann.pk,
            session=Session.objects.create(user=ann, expires_at=timezone.now() + timedelta(days=1)).pk.hex,
        )
        refused(by_refresh(nobody, token), 401, "AuthenticationFailed")

    @pytest.mark.parametrize(
        "token",
        ["x", "a.b.c", "..", "é.é.é", base64.urlsafe_b64encode(b"[" * 3000).decode() + ".e30.e30", "x" * 8000],
        ids=lambda token: token[:10],
    )
    def test_nonsense_is_no_token(self, nobody, db, token):
        refused(by_refresh(nobody, token), 401, "AuthenticationFailed")
        request = body(grantType="Bearer", tokenType="accessToken", accessToken=token)
        refused(nobody.send("POST", "/auth/login", json=request), 401, "AuthenticationFailed")
        header = {"Authorization": f"Bearer {token}".encode()}
        refused(nobody.get("/features/", headers=header), 401, "AuthenticationFailed")

    @pytest.mark.parametrize("change", [{"is_active": False}, {"is_deleted": True}])
    def test_a_user_who_is_not_usable_has_no_good_token(self, nobody, ann, change):
        credentials = logged_in(nobody)
        type(ann).objects.filter(pk=ann.pk).update(**change)
        assert not works(nobody, credentials["SvcUserCookie"])
        refused(by_refresh(nobody, credentials["SvcAuthCookie"]), 401, "AuthenticationFailed")


class TestLogout:
    def three(self, nobody):
        return [logged_in(nobody) for _ in range(3)]

    def logout(self, nobody, token=None, **attributes):
        client = nobody.with_credential(token) if token else nobody
        return client.send("POST", "/auth/logout", json=body(**attributes))

    @pytest.mark.parametrize(
        ("device", "remaining"),
        [("currentDevice", [False, True, True]), ("otherDevices", [True, False, False]), ("allDevices", [False] * 3)],
    )
    @pytest.mark.parametrize("by", ["header", "body", "both", "cookies"])
    @promise("V-L15, S7: an ended session opens nothing", target="401 from the next request on", suite="attack")
    def test_it_ends_this_session_the_others_or_all_at_once(self, nobody, ann, device, remaining, by):
        bob = token_of(new_user(username="Bob"))
        credentials = self.three(nobody)
        token = credentials[0]["SvcUserCookie"]
        named = {"grantType": "Bearer", "tokenType": "accessToken", "accessToken": token}
        request = body(logoutDevice=device, **(named if by in ("body", "both") else {}))
        if by == "cookies":
            response = with_cookies(nobody, "POST", "/auth/logout", credentials[0], OWN, json=request)
            cleared = cookies_of(response)
            assert {cookie.value for cookie in cleared.values()} == ({""} if device != "otherDevices" else set())
        else:
            client = nobody if by == "body" else nobody.with_credential(token)
            response = client.send("POST", "/auth/logout", json=request)
        assert (response.status_code, response.content) == (200, b"")
        assert [works(nobody, one["SvcUserCookie"]) for one in credentials] == remaining
        for one, lives in zip(credentials, remaining, strict=True):
            assert (by_refresh(nobody, one["SvcAuthCookie"]).status_code == 200) is lives
        assert works(nobody, bob)

    def test_it_needs_no_body_and_means_this_device_then(self, nobody, ann):
        credentials = self.three(nobody)
        response = nobody.with_credential(credentials[0]["SvcUserCookie"]).send("POST", "/auth/logout")
        assert response.status_code == 200
        assert [works(nobody, one["SvcUserCookie"]) for one in credentials] == [False, True, True]

    def test_the_cookie_that_is_left_after_a_quarter_of_an_hour_logs_out_too(self, nobody, ann):
        credentials = logged_in(nobody)
        cookies = {"SvcAuthCookie": credentials["SvcAuthCookie"]}
        assert with_cookies(nobody, "POST", "/auth/logout", cookies, OWN).status_code == 200
        assert not works(nobody, credentials["SvcUserCookie"])
        refused(with_cookies(nobody, "POST", "/auth/logout", cookies, OWN), 401, "AuthenticationFailed")

    def test_nobody_cannot_log_out_and_no_one_logs_out_another(self, nobody, ann):
        new_user(username="Bob")
        credentials, bobs = logged_in(nobody), logged_in(nobody, username="Bob")["SvcUserCookie"]
        refused(self.logout(nobody), 401, "AuthenticationFailed")
        refused(self.logout(nobody, accessToken="nonsense"), 401, "AuthenticationFailed")
        refused(self.logout(nobody, bobs, accessToken=credentials["SvcUserCookie"]), 401, "AuthenticationFailed")
        refused(self.logout(nobody, accessToken=credentials["SvcAuthCookie"]), 401, "AuthenticationFailed")
        refused(self.logout(nobody, "nonsense", accessToken=credentials["SvcUserCookie"]), 401, "AuthenticationFailed")
        assert works(nobody, credentials["SvcUserCookie"])

    @pytest.mark.parametrize(
        "payload",
        [{"logoutDevice": "noDevice"}, {"logoutDevice": None}, {"grantType": "password"}, {"accessToken": 5}, {"x": 1}],
    )
    def test_a_logout_that_is_not_of_the_right_form_gets_400(self, nobody, ann, payload):
        credentials = logged_in(nobody)
        refused(self.logout(nobody, credentials["SvcUserCookie"], **payload), 400, "ValidationError")
        assert works(nobody, credentials["SvcUserCookie"])

    @pytest.mark.parametrize("data", [{}, {"id": "5"}, {"logoutDevice": "allDevices"}])
    def test_a_device_that_stands_in_the_wrong_place_is_not_taken_for_this_one(self, nobody, ann, data):
        credentials = logged_in(nobody)
        client = nobody.with_credential(credentials["SvcUserCookie"])
        refused(client.send("POST", "/auth/logout", json={"data": data}), 400, "ValidationError")
        assert works(nobody, credentials["SvcUserCookie"])


class TestClearingAway:
    def test_sessions_go_when_none_of_their_tokens_can_come_any_more(self, nobody, ann):
        now = timezone.now()

        def session(**given):
            return Session.objects.create(**({"user": ann, "expires_at": now + timedelta(days=1)} | given)).pk

        rest = {
            session(),
            session(ended_at=now - timedelta(days=3)),
            session(expires_at=now - timedelta(minutes=1)),
        }
        for _ in range(5):
            session(expires_at=now - timedelta(hours=2))
            session(expires_at=now - timedelta(hours=2), ended_at=now - timedelta(days=3))
        ConsoleSession.objects.create(session_key="old", expire_date=now - timedelta(hours=2))
        ConsoleSession.objects.create(session_key="new", expire_date=now + timedelta(hours=2))
        assert [delete_expired(most=4) for _ in range(4)] == [5, 4, 2, 0]
        assert set(Session.objects.values_list("pk", flat=True)) == rest
        assert ConsoleSession.objects.get().session_key == "new"

    def test_a_stolen_token_is_noticed_up_to_its_last_moment(self, nobody, ann):
        first = logged_in(nobody)["SvcAuthCookie"]
        newest = by_refresh(nobody, first).json()["refreshToken"]
        delete_expired(most=100)
        refused(by_refresh(nobody, first), 401, "AuthenticationFailed")
        refused(by_refresh(nobody, newest), 401, "AuthenticationFailed")
        assert not Session.objects.live().exists()

    def test_a_token_whose_session_was_cleared_away_is_refused(self, nobody, ann):
        credentials = logged_in(nobody)
        Session.objects.update(expires_at=timezone.now() - timedelta(hours=2))
        assert delete_expired(most=100) == 1
        refused(by_refresh(nobody, credentials["SvcAuthCookie"]), 401, "AuthenticationFailed")
        assert not works(nobody, credentials["SvcUserCookie"])


def test_running_gateways_clear_sessions_away(own_gateway):
    user = new_user(username="spent")
    long_ago = timezone.now() - timedelta(days=1)
    Session.objects.bulk_create(Session(user=user, expires_at=long_ago) for _ in range(1200))
    lives = Session.objects.create(user=user, expires_at=timezone.now() + timedelta(days=1))
    world = own_gateway()
    world.until(lambda: set(Session.objects.of(user)) == {lives}, seconds=20)


def test_a_login_works_on_the_work_path_and_ends_there_at_once(world):
    """Over gunicorn, where work requests know sessions by another way."""
    world.provider().answers(text="Hello!")
    world.allow()
    nobody = Client(world.gateway.url)
    credentials = logged_in(nobody, username=world.user.username)
    assert world.ask(key=credentials["SvcUserCookie"]).status_code == 200
    client = nobody.with_credential(credentials["SvcUserCookie"])
    assert client.send("POST", "/auth/logout").status_code == 200
    assert world.ask(key=credentials["SvcUserCookie"]).status_code == 401


@promise("S7: a deactivated user is refused by every worker", target="within 1 s", suite="attack")
def test_who_is_deactivated_over_the_api_is_refused_by_running_workers_within_a_second(world, figure):
    world.provider().answers(text="Hello!")
    world.allow()
    assert world.ask().status_code == 200
    admin = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    assert admin.send("PATCH", f"/users/?id={world.user.pk}", json=body(active=False)).status_code == 200
    begun = time.monotonic()
    world.soon(world.ask, 401, seconds=1)
    seconds = time.monotonic() - begun
    figure({"s at most": seconds})
    assert seconds <= bound(1)
    assert {world.ask().status_code for _ in range(20)} == {401}


class TestBoundsOfSessions:
    @promise("Sessions end, and each user has few", target="30 days; the oldest ends", suite="attack")
    def test_a_session_ends_however_often_it_is_refreshed(self, nobody, ann, settings):
        from accounts import sessions

        _, session_id, tokens = sessions.log_in(username="ann", password=PASSWORD)
        began = timezone.now() - timedelta(days=29, hours=23)
        Session.objects.filter(pk=session_id).update(created_at=began)
        sessions.refresh_tokens(tokens.refresh)
        assert Session.objects.get(pk=session_id).expires_at == began + timedelta(days=30)

    @promise("Sessions end, and each user has few", target="30 days; the oldest ends", suite="attack")
    def test_one_more_than_allowed_ends_the_oldest(self, nobody, ann, settings):
        from accounts import sessions

        settings.GATEWAY_MAX_SESSIONS_PER_USER = 2
        ids = [sessions.log_in(username="ann", password=PASSWORD)[1] for _ in range(3)]
        assert set(Session.objects.live().values_list("pk", flat=True)) == set(ids[1:])
