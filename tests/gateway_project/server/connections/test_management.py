"""Management requests have a share of the threads: each has a place until its answer is sent."""

import json
from contextlib import ExitStack, closing
from io import BytesIO
from wsgiref.util import setup_testing_defaults

import pytest
from gunicorn.http.wsgi import FileWrapper

from gateway_project import wsgi
from gateway_project.errors import ServiceUnavailable
from gateway_project.server.connections.addresses import Places
from gateway_project.server.connections.logins import TOO_MANY_LOGINS
from gateway_project.server.connections.management import TOO_MANY, management_places
from gateway_project.server.management_bodies import ManagementBodies
from gateway_project.work import views

pytestmark = pytest.mark.embedded
LOGIN, STATIC, MODELS = "/admin/login/", "/static/gateway/console.js", "/v1/models"


@pytest.fixture
def places(monkeypatch):
    """Of a process with eight threads."""
    places = management_places(8)
    monkeypatch.setattr(wsgi, "MANAGEMENT", places)
    monkeypatch.setattr(views, "MANAGEMENT", places)
    monkeypatch.setattr(wsgi, "django_application", respond)
    return places


def respond(environ, start_response):
    """In Django's stead: a page, or a file."""
    start_response("200 OK", [])
    return FileWrapper(BytesIO(b"text")) if environ["PATH_INFO"] == STATIC else iter([b"text"])


class Response:
    """What the application answers to one request, until it is closed."""

    def __init__(self, path: str, address: str = "192.0.2.1", **environ: object) -> None:
        self.environ = {"PATH_INFO": path, "REMOTE_ADDR": address, "HTTP_HOST": "localhost"} | environ
        setup_testing_defaults(self.environ)
        self.environ["wsgi.file_wrapper"] = FileWrapper
        self.status, self.headers = 0, {}
        self.body = wsgi.application(self.environ, self._start)

    def _start(self, status: str, headers: list[tuple[str, str]], *_: object) -> None:
        self.status, self.headers = int(status[:3]), dict(headers)

    def close(self) -> None:
        if close := getattr(self.body, "close", None):
            close()


@pytest.mark.parametrize(
    ("threads", "total", "per_address"),
    [(1, 1, 1), (2, 1, 1), (4, 3, 3), (8, 7, 6), (32, 16, 8), (64, 32, 16), (128, 32, 16), (1200, 300, 150)],
)
def test_they_have_a_quarter_of_the_threads_and_one_address_half_of_it(threads, total, per_address):
    assert room(management_places(threads), lambda _: "192.0.2.1") == per_address
    assert room(management_places(threads), lambda number: f"192.0.2.{number}") == total


def room(places, address_of):
    """How many requests get a place."""
    for number in range(1000):
        try:
            places.take(address_of(number))
        except ServiceUnavailable:
            return number
    return None


@pytest.mark.parametrize("path", [LOGIN, STATIC])
def test_a_request_has_its_place_until_its_answer_is_sent(places, path):
    with ExitStack() as resources:
        responses = [resources.enter_context(closing(Response(path))) for _ in range(6)]
        assert {response.status for response in responses} == {200}
        refusal = Response(path)
        assert refusal.status == 503
        assert refusal.headers["Retry-After"] == "1"
        assert json.loads(b"".join(refusal.body))["message"] == TOO_MANY
        resources.enter_context(closing(Response(path, "192.0.2.2")))  # the last place of all
        assert Response(path, "192.0.2.3").status == 503
    assert Response(path).status == 200


def test_without_a_body_it_has_none_to_send(places):
    assert {Response(LOGIN, REQUEST_METHOD="HEAD").status for _ in range(20)} == {200}


def test_a_file_is_sent_in_parts(places):
    with closing(Response(STATIC)) as response:
        assert b"".join(response.body) == b"text"


def test_one_that_fails_gives_its_place_back(places, monkeypatch):
    monkeypatch.setattr(wsgi, "django_application", lambda environ, start_response: 1 / 0)
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            Response(LOGIN)


def test_who_renews_a_session_needs_no_place_of_logins(places, monkeypatch):
    monkeypatch.setattr(wsgi, "LOGINS", Places(0, 0, TOO_MANY_LOGINS))
    monkeypatch.setattr(wsgi, "BODIES", ManagementBodies(1, lambda: None, has_arrived=lambda _: True))
    refresh = b'{"data": {"attributes": {"grantType": "Bearer", "tokenType": "refreshToken", "refreshToken": "a"}}}'
    for body, status in ((refresh, 200), (refresh.replace(b"refreshToken", b"password"), 503), (b"{}", 503)):
        values = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/json"}
        with closing(Response("/auth/login", **values, **{"wsgi.input": BytesIO(body)})) as response:
            assert response.status == status


def test_lists_of_models_share_these_places_and_work_and_health_do_not(places):
    with places.place("192.0.2.1"):
        assert room(places, lambda number: f"192.0.2.{number}") == 6
        refusal = Response(MODELS)
        assert refusal.status == 503
        assert refusal.headers["Retry-After"] == "1"
        assert json.loads(b"".join(refusal.body))["error"]["message"] == TOO_MANY
        assert Response("/healthz").status == 200
        assert Response("/work", **{"wsgi.input": BytesIO()}).status == 405
