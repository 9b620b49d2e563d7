"""The second factor in the password login of the API."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from accounts import sessions
from accounts.models import AuthenticatorApp, RecoveryCode, Role, Session
from accounts.sso.services import link_identity
from gateway_project.errors import AuthenticationFailed, GatewayError, RateLimited
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry
from tests.support.logins import cookies_of
from tests.support.management import PASSWORD, body, refused
from tests.support.promises import promise
from tests.support.second_factor import new_app

pytestmark = pytest.mark.either_store


@pytest.fixture
def app(nobody, ann):
    return new_app(ann)


def log_in(client, password=PASSWORD, **more):
    return client.send(
        "POST", "/auth/login", json=body(grantType="password", userName="ann", password=password, **more)
    )


def test_without_a_code_the_error_asks_for_one_after_the_right_password_alone(nobody, app):
    response = log_in(nobody)
    refused(response, 401, "SecondFactorRequired", "otp")
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert not cookies_of(response)
    wrong = log_in(nobody, "wrong", otp=app.code())
    refused(wrong, 401, "AuthenticationFailed", "password")
    refused(log_in(nobody, "wrong"), 401, "AuthenticationFailed", "password")
    assert not Session.objects.exists()


def test_with_the_code_of_now_there_is_a_session(nobody, app):
    response = log_in(nobody, otp=app.code())
    assert response.status_code == 200, response.text
    assert cookies_of(response).keys() == {"SvcUserCookie", "SvcAuthCookie"}


def test_clocks_may_differ_by_thirty_seconds(nobody, app):
    assert log_in(nobody, otp=app.code(1)).status_code == 200
    refused(log_in(nobody, otp=app.code(3)), 401, "AuthenticationFailed")


def test_a_code_counts_once_and_none_counts_after_a_later_one(nobody, app):
    code, later = app.code(), app.code(1)
    assert log_in(nobody, otp=later).status_code == 200
    refused(log_in(nobody, otp=later), 401, "AuthenticationFailed", "used before")
    refused(log_in(nobody, otp=code), 401, "AuthenticationFailed", "used before")


def test_the_code_of_the_setup_is_used_up(nobody, app):
    refused(log_in(nobody, otp=app.code(-1)), 401, "AuthenticationFailed")


def test_of_two_uses_at_once_one_counts(nobody, app):
    code = app.code(1)
    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(pool.map(lambda _: log_in(nobody, otp=code).status_code, range(4)))
    assert statuses.count(200) == 1
    assert Session.objects.count() == 1


def test_wrong_codes_count_in_the_throttle_of_wrong_passwords(nobody, app, settings):
    settings.GATEWAY_LOGIN_FAILURES = 4
    wrong = "000000" if app.code() != "000000" else "111111"
    refused(log_in(nobody, "wrong"), 401, "AuthenticationFailed")
    for _ in range(3):
        refused(log_in(nobody, otp=wrong), 401, "AuthenticationFailed", "code")
        # The right password alone neither counts nor makes the failures forgotten.
        if log_in(nobody).status_code == 429:
            break
    refused(log_in(nobody, otp=app.code()), 429, "RateLimited")


@promise("Codes of an app cannot be guessed from many addresses", target="20 wrong codes a day", suite="attack")
def test_wrong_codes_count_over_all_addresses(nobody, app, ann, settings):
    settings.GATEWAY_LOGIN_FAILURES_PER_ACCOUNT = 10_000
    wrong = "000000" if app.code() != "000000" else "111111"
    results = [log_in_from(f"198.51.100.{number}", otp=wrong) for number in range(30)]
    assert results == [AuthenticationFailed] * 20 + [RateLimited] * 10
    assert log_in_from("203.0.113.1", otp=app.code()) is RateLimited
    assert log_in_from("203.0.113.1", otp=app.recovery_codes[0]) is None


def log_in_from(address, otp):
    """The class of the error with which a login from there ends; None if it is one."""
    try:
        sessions.log_in(username="ann", password=PASSWORD, otp=otp, address=address)
    except GatewayError as error:
        return type(error)
    return None


def test_the_right_password_without_a_code_is_in_the_audit(nobody, app):
    log_in(nobody)
    assert AuditEntry.objects.filter(message__contains="the second factor is still missing").count() == 1


def test_a_right_login_makes_failures_forgotten(nobody, app, settings):
    settings.GATEWAY_LOGIN_FAILURES = 2
    refused(log_in(nobody, otp="abc"), 401, "AuthenticationFailed")
    assert log_in(nobody, otp=app.code()).status_code == 200
    refused(log_in(nobody, otp="abc"), 401, "AuthenticationFailed")
    assert log_in(nobody, otp=app.code(1)).status_code == 200


def test_a_recovery_code_counts_once_in_the_same_attribute(nobody, app):
    code = app.recovery_codes[0]
    assert log_in(nobody, otp=f" {code.upper()} ").status_code == 200
    refused(log_in(nobody, otp=code), 401, "AuthenticationFailed")
    assert RecoveryCode.objects.unused().count() == 9
    entry = AuditEntry.objects.filter(message__contains="recovery code").get()
    assert entry.message == "ann used a recovery code; 9 are left."


def test_of_two_uses_of_a_recovery_code_at_once_one_counts(nobody, app):
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda code: log_in(nobody, otp=code).status_code, app.recovery_codes[:1] * 4))
    assert statuses.count(200) == 1


def test_nothing_of_a_secret_or_a_code_is_in_the_database_or_the_log(nobody, app):
    code = app.code()
    assert log_in(nobody, otp=code).status_code == 200
    assert log_in(nobody, otp=app.recovery_codes[0]).status_code == 200
    assert log_in(nobody, otp=app.recovery_codes[0]).status_code == 401
    stored = AuthenticatorApp.objects.get()
    texts = [stored.credential, *RecoveryCode.objects.values_list("digest", flat=True)]
    for model in (LogEntry, AuditEntry):
        texts.extend(json.dumps(list(model.objects.values()), default=str) for _ in range(1))
    everything = " ".join(texts)
    for secret in (app.secret, *app.recovery_codes, f'"{code}"'):
        assert secret not in everything
    assert stored.opened_secret() == app.secret


@pytest.mark.parametrize("otp", [5, "", None, ["123456"], "x" * 65, "a\0b"], ids=repr)
def test_a_code_that_is_not_of_the_right_form_gets_400(nobody, app, otp):
    assert "otp" in refused(log_in(nobody, otp=otp), 400, "ValidationError")


def test_without_a_factor_a_code_is_of_no_use_and_no_harm(nobody, ann):
    assert log_in(nobody, otp="123456").status_code == 200


class TestARoleThatRequiresIt:
    @pytest.fixture(autouse=True)
    def requiring(self, db):
        Role.objects.filter(name="user").update(requires_second_factor=True)

    def test_whoever_has_none_learns_where_to_set_one_up(self, nobody, ann):
        response = log_in(nobody)
        refused(response, 403, "SecondFactorMissing", "browser")
        assert not cookies_of(response)
        assert not Session.objects.exists()
        refused(log_in(nobody, "wrong"), 401, "AuthenticationFailed")

    def test_whoever_has_one_logs_in_with_it(self, nobody, app):
        assert log_in(nobody, otp=app.code()).status_code == 200

    def test_tokens_and_sessions_go_on(self, as_ann):
        assert as_ann.get("/features/").status_code == 200

    def test_an_identity_changes_nothing_for_the_password(self, nobody, ann):
        link_identity(user_id=ann.pk, issuer="https://id.example", subject="7")
        refused(log_in(nobody), 403, "SecondFactorMissing")
