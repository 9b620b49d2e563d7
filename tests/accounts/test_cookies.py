"""The cookies of a browser's login, and what may be written with them."""

import json

import pytest

from accounts.models import Session
from tests.support.logins import OWN, cookies_of, logged_in, with_cookies, works
from tests.support.management import body, new_user, refused
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


class TestCookies:
    def test_a_cookie_reads_from_anywhere(self, nobody, ann):
        assert with_cookies(nobody, "GET", "/features/", logged_in(nobody)).status_code == 200

    def test_the_header_goes_before_the_cookie(self, nobody, ann):
        response = with_cookies(nobody, "GET", "/features/", logged_in(nobody), {"Authorization": "Bearer bad"})
        assert response.status_code == 401

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Origin": "null"},
            {"Origin": ""},
            {"Origin": "https://evil.example"},
            {"Origin": "http://sub.localhost"},
            {"Origin": "http://localhost.evil.example"},
            {"Origin": "http://localhost:1"},
            {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
            {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "none"},
            {"Referer": "http://localhost/"},
            {"X-HTTP-Method-Override": "PATCH", "Origin": "https://evil.example"},
        ],
        ids=str,
    )
    @promise("V-N7, S12: a forged write with a cookie changes nothing", target="403, nothing changed", suite="attack")
    def test_a_forged_write_is_refused_and_changes_nothing(self, nobody, ann, headers):
        cookies = logged_in(nobody)
        request = body(displayName="forged")
        refused(with_cookies(nobody, "PATCH", "/users/", cookies, headers, json=request), 403, "PermissionDenied")
        refused(with_cookies(nobody, "POST", "/auth/logout", cookies, headers, json=body()), 403, "PermissionDenied")
        refresh = body(grantType="Bearer", tokenType="refreshToken")
        refused(with_cookies(nobody, "POST", "/auth/login", cookies, headers, json=refresh), 403, "PermissionDenied")
        ann.refresh_from_db()
        assert ann.display_name == ""
        assert Session.objects.live().count() == 1

    @promise("V-N7, S12: a forged write with a cookie changes nothing", target="403, nothing changed", suite="attack")
    def test_a_form_cannot_write_even_from_the_own_origin(self, nobody, ann):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            headers = OWN | {"Content-Type": kind}
            data = json.dumps(body(displayName="forged")).encode()
            response = with_cookies(nobody, "PATCH", "/users/", logged_in(nobody), headers, data=data)
            refused(response, 415, "UnsupportedMediaType")

    def test_a_write_from_the_own_origin_is_served(self, nobody, ann, settings):
        settings.GATEWAY_BASE_URL = "https://gateway.example"
        cookies = logged_in(nobody)
        for headers in (OWN, {"Origin": nobody.base}, {"Origin": "https://gateway.example"}):
            response = with_cookies(nobody, "PATCH", "/users/", cookies, headers, json=body(displayName=str(headers)))
            assert response.status_code == 200
            ann.refresh_from_db()
            assert ann.display_name == str(headers)

    def test_a_refresh_takes_the_cookie_where_the_body_has_none(self, nobody, ann):
        cookies = logged_in(nobody)
        request = body(grantType="Bearer", tokenType="refreshToken")
        response = with_cookies(nobody, "POST", "/auth/login", cookies, OWN, json=request)
        assert response.status_code == 200
        assert works(nobody, response.json()["accessToken"])
        assert cookies_of(response)["SvcAuthCookie"].value == response.json()["refreshToken"]

    @promise("S6: cookies of two logins are not one login", target="401", suite="attack")
    def test_cookies_of_two_logins_are_not_one_login(self, nobody, ann):
        new_user(username="Bob")
        mixed = logged_in(nobody) | {"SvcAuthCookie": logged_in(nobody, username="Bob")["SvcAuthCookie"]}
        request = body(grantType="Bearer", tokenType="refreshToken")
        refused(with_cookies(nobody, "POST", "/auth/login", mixed, OWN, json=request), 401, "AuthenticationFailed")
        assert Session.objects.live().count() == 2
