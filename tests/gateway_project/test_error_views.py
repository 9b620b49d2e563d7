"""Errors outside the views: what is answered, and what is left in the server's own output."""

import logging

import pytest

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch):
    for seldom in logging.getLogger("gateway.hosts").filters:  # several where a test has set Django up again
        monkeypatch.setattr(seldom, "_passed", float("-inf"))


@pytest.mark.parametrize("host", ["strange.example:81", "not a host", "x" * 5000])
def test_a_host_that_is_not_served_is_named(nobody, host):
    answer = nobody.send("GET", "/users/", headers={"Host": host})
    assert answer.status_code == 400
    body, message = answer.json(), f"The host {host[:100]!r} is not in ALLOWED_HOSTS."
    assert (body["code"], body["exception"], body["message"]) == (400, "ValidationError", message)
    assert [error["detail"] for error in body["errors"]] == [message]


def test_strangers_cannot_fill_the_log_with_hosts(nobody, caplog):
    with caplog.at_level(logging.INFO):
        for number in range(3):
            nobody.send("GET", "/users/", headers={"Host": f"strange-{number}.example"})
    (record,) = [record for record in caplog.records if "strange" in record.getMessage()]
    assert "'strange-0.example' is not in ALLOWED_HOSTS" in record.getMessage()
    assert not record.exc_info


def test_a_browser_at_the_address_that_is_ready_finds_the_console(nobody):
    html = {"headers": {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}, "allow_redirects": False}
    answer = nobody.send("GET", "/", **html)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")
    assert nobody.send("GET", "/nowhere", **html).status_code == 404
    assert nobody.send("GET", "/", headers={"Accept": "*/*"}).json()["exception"] == "NotFound"


def test_who_sends_no_credential_is_told_how(nobody):
    nothing, wrong = nobody.get("/users/"), nobody.with_credential("svc_wrong").get("/users/")
    assert nothing.status_code == wrong.status_code == 401
    assert nothing.json()["exception"] == wrong.json()["exception"] == "AuthenticationFailed"
    assert "Authorization: Bearer" in nothing.json()["message"]
    assert "Authorization: Bearer" not in wrong.json()["message"]
