"""Pages are compressed for browsers that can read it; data and streams are not. Outages are no faults of ours."""

import gzip

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from gateway_project.server.middleware import ErrorResponses, PageCompression

TEXT = "<p>a long page of the console</p>" * 100


def answer(response, **headers):
    return PageCompression(lambda request: response)(RequestFactory().get("/admin/", headers=headers))


def test_a_page_is_compressed_and_its_length_says_little():
    answers = [answer(HttpResponse(TEXT), **{"accept-encoding": "gzip, br"}) for _ in range(20)]
    assert {one.headers["Content-Encoding"] for one in answers} == {"gzip"}
    assert gzip.decompress(answers[0].content).decode() == TEXT
    assert len({len(one.content) for one in answers}) > 3
    assert "Accept-Encoding" in answers[0].headers["Vary"]


@pytest.mark.parametrize(
    "response",
    [HttpResponse(TEXT, content_type="application/json"), StreamingHttpResponse([TEXT], content_type="text/html")],
    ids=["data", "stream"],
)
def test_data_and_streams_stay_as_they_are(response):
    assert "Content-Encoding" not in answer(response, **{"accept-encoding": "gzip"}).headers


def test_who_cannot_read_it_gets_the_page_plain():
    assert answer(HttpResponse(TEXT)).content.decode() == TEXT


PAGES = [
    ("GET", "/auth/sso/corp/"),
    ("GET", "/auth/sso/corp/callback/?state=x"),
    ("POST", "/auth/sso/corp/backchannel-logout/"),
    ("POST", "/me/login/"),
    ("POST", "/admin/login/"),
]
LOGIN = {"username": "ann", "password": "a secret", "logout_token": "a.b.c"}


def without_database(method, path, accept):
    """The response to a request none of whose statements the database answers."""

    def fail(*details):
        raise OperationalError("connection refused")

    client = Client(headers={"Accept": accept})
    with connection.execute_wrapper(fail):
        return client.generic(method, path) if method == "GET" else client.post(path, LOGIN)


@pytest.mark.django_db
@pytest.mark.parametrize(("method", "path"), PAGES)
def test_a_page_without_a_database_is_a_503_and_can_be_asked_for_again(method, path):
    response = without_database(method, path, "text/html")
    assert (response.status_code, response.headers["Content-Type"]) == (503, "text/html; charset=utf-8")
    assert (response.headers["Retry-After"], response.headers["Cache-Control"]) == ("1", "no-store")
    page = response.content.decode()
    assert "The database does not answer" in page
    assert f'<a href="{path}">Try again</a>' in page


@pytest.mark.django_db
@pytest.mark.parametrize(("method", "path"), PAGES)
def test_a_program_gets_the_document_of_the_error(method, path):
    response = without_database(method, path, "application/json")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.json()["exception"] == "ServiceUnavailable"


def test_a_write_race_is_a_conflict():
    race = DatabaseError("deadlock detected")
    race.__cause__ = psycopg.errors.DeadlockDetected()
    response = ErrorResponses(HttpResponse).process_exception(RequestFactory().post("/me/login/"), race)
    assert response.status_code == 409


@pytest.mark.parametrize("error", [ValueError("a fault"), DatabaseError("another one")])
def test_a_fault_stays_one(error):
    assert ErrorResponses(HttpResponse).process_exception(RequestFactory().get("/me/login/"), error) is None
