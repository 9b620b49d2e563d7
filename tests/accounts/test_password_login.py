"""GATEWAY_PASSWORD_LOGIN=off: admins log in with their passwords, and nobody else does."""

import pytest
from django.db import connection
from django.test import Client as Browser

from accounts.models import Session
from accounts.sessions import log_in, start_session
from gateway_project.errors import SecondFactorRequired
from telemetry.models import LogEntry
from tests.support.management import PASSWORD, new_admin
from tests.support.promises import promise
from tests.support.second_factor import new_app

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture
def off(settings):
    settings.GATEWAY_PASSWORD_LOGIN = "off"


def api_login(nobody, name, password=PASSWORD):
    return nobody.post("/auth/login", grantType="password", userName=name, password=password)


def form_login(path, name, password=PASSWORD):
    browser = Browser()
    return browser.post(path, {"username": name, "password": password}), browser


@promise("V-O4: what a switch turns off has no routes", target="404, or 401 for every login", suite="attack")
def test_whoever_is_no_admin_is_refused_as_for_a_wrong_password(off, nobody, ann):
    answers = [api_login(nobody, "ann", password).json() for password in (PASSWORD, "wrong")]
    assert {(answer["code"], answer["message"]) for answer in answers} == {
        (401, "The user name or the password is wrong. Only admins can log in with a password: use single sign-on.")
    }
    for path in ("/me/login/", "/admin/login/"):
        pages = [form_login(path, "ann", password)[0] for password in (PASSWORD, "wrong")]
        assert [(page.status_code, "use single sign-on" in page.text) for page in pages] == [(200, True)] * 2
    assert not Session.objects.exists()
    assert LogEntry.objects.filter(message__contains="refused although the password was right").count() == 3


def test_an_admin_logs_in_everywhere(off, nobody):
    admin = new_admin()
    assert api_login(nobody, admin.username).status_code == 200
    for path in ("/me/login/", "/admin/login/"):
        response, _ = form_login(path, admin.username)
        assert response.status_code == 302


def test_the_login_of_users_leads_to_single_sign_on(off, client):
    page = client.get("/me/login/").text
    assert "No identity provider is set up yet." in page
    assert 'name="password"' not in page
    assert "/admin/login/" in page


def test_a_second_step_that_had_begun_ends(settings, ann):
    new_app(ann)
    response, browser = form_login("/me/login/", "ann")
    assert response.headers["Location"] == "/me/login/code/"
    settings.GATEWAY_PASSWORD_LOGIN = "off"
    assert browser.get("/me/login/code/").headers["Location"] == "/me/login/"


def test_other_logins_and_sessions_go_on(settings, ann):
    _, browser = form_login("/me/login/", "ann")
    settings.GATEWAY_PASSWORD_LOGIN = "off"
    page = browser.get("/me/account/")
    assert page.status_code == 200
    assert "Change password" not in page.text
    start_session(ann)  # as single sign-on does
    assert Session.objects.count() == 2


def test_a_login_that_runs_while_the_first_factor_is_set_up_opens_no_session(ann):
    """The factor is set up between the check of the password and the session."""
    has_run = []

    def run_in_between(execute, statement, parameters, many, context):
        if "last_login" in statement and statement.startswith("UPDATE") and not has_run:
            has_run.append(True)
            new_app(ann)
        return execute(statement, parameters, many, context)

    with connection.execute_wrapper(run_in_between), pytest.raises(SecondFactorRequired):
        log_in(username="ann", password=PASSWORD)
    assert has_run
    assert not Session.objects.exists()
