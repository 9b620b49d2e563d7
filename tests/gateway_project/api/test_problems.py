"""Errors of the management API: which comes first, their place in the request, and what they keep to themselves."""

import pytest

from accounts.models import Role
from gateway_project.api.audit import store_change
from tests.support.management import body, refused

pytestmark = pytest.mark.either_store


def test_what_is_wrong_is_looked_for_in_order(nobody, admin):
    from tests.support.management import new_user

    user, wrong = nobody.as_user(new_user()), {"data": b"[", "headers": {"Content-Type": "text/plain"}}
    path = "/roles/987654/"
    refused(nobody.send("PATCH", path, **wrong), 401, "AuthenticationFailed")
    refused(user.send("PATCH", path, **wrong), 403, "PermissionDenied", "admin")
    refused(admin.send("PATCH", path, **wrong), 415, "UnsupportedMediaType")
    refused(admin.send("PATCH", path, data=b"["), 400, "ValidationError")
    refused(admin.patch(path, name="x"), 404, "NotFound", "987654")
    refused(nobody.send("PUT", path, **wrong), 405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "path", ["/nosuch", "/roles/x/", "/roles/1/2/", "/roles/1%0a", "/roles/" + "9" * 30, "/users.x"]
)
def test_an_unknown_path_has_the_same_error(admin, nobody, path):
    refused(admin.get(path), 404, "NotFound")
    refused(nobody.get(path), 404, "NotFound")


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "TRACE", "DELETE", "PROPFIND"])
def test_an_unsupported_method_names_the_others(admin, nobody, method):
    response = admin.send(method, "/features/")
    refused(response, 405, "MethodNotAllowed", "GET")
    assert response.headers["Allow"] == "GET, POST, HEAD"
    assert response.json()["message"] == "This path supports GET, POST, HEAD."
    refused(nobody.send(method, "/features/"), 405, "MethodNotAllowed")


def test_head_is_get_without_a_body(admin):
    response = admin.send("HEAD", "/roles/")
    assert (response.status_code, response.content) == (200, b"")


def test_every_answer_names_its_request(admin):
    named = admin.get("/roles/", headers={"X-Svc-Request-ID": "mine-1"})
    assert named.headers["X-Svc-Request-ID"] == "mine-1"
    assert len(admin.get("/roles/").headers["X-Svc-Request-ID"]) == 32


def test_a_crash_is_told_in_the_same_form_and_says_nothing(admin, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise RuntimeError("SELECT secret FROM hidden")

    monkeypatch.setattr("accounts.services.create_role", broken)
    response = admin.post("/roles/", name="x")
    assert "SELECT" not in refused(response, 500, "InternalError")
    assert response.headers["X-Svc-Request-ID"] in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_change_and_its_log_entry_are_one_transaction(admin, monkeypatch):
    monkeypatch.setattr(store_change, "function", no_log)
    assert admin.post("/roles/", name="x").status_code == 500
    assert not Role.objects.filter(name="x").exists()


def no_log(change):
    raise RuntimeError("the log is full")


@pytest.mark.parametrize("kind", ["away", "only read"])
def test_a_database_that_is_away_or_only_read_is_503(admin, monkeypatch, kind):
    from django.db import InternalError, OperationalError
    from psycopg.errors import ReadOnlySqlTransaction

    def away(*args, **kwargs):
        if kind == "away":
            raise OperationalError("could not connect to server at 10.0.0.7")
        raise InternalError("cannot execute INSERT at 10.0.0.7") from ReadOnlySqlTransaction("cannot execute INSERT")

    monkeypatch.setattr("accounts.services.create_role", away)
    response = admin.post("/roles/", name="x")
    assert "10.0.0.7" not in refused(response, 503, "ServiceUnavailable")
    assert response.headers["Retry-After"]


def sources(response) -> list[dict]:
    return [error.get("source") for error in response.json()["errors"]]


@pytest.mark.parametrize("flat", [False, True])
def test_each_problem_is_an_error_object_with_its_place(admin, flat):
    response = admin.send("POST", "/users/", json=body(userName=" x", email="nobody"), flat=flat)
    refused(response, 400, "ValidationError", "userName: ", "email: ", "password: ")
    named = [{"pointer": f"/data/attributes/{name}"} for name in ("email", "password", "userName")]
    assert sorted(sources(response), key=str) == named
    (error,) = admin.send("GET", "/users/?active=maybe", flat=flat).json()["errors"]
    assert error == {
        "status": "400",
        "code": "ValidationError",
        "title": "The request is not valid",
        "detail": "must be true or false.",
        "source": {"parameter": "active"},
    }


def test_what_services_refuse_names_the_attribute_that_was_sent(admin, ann):
    roles = admin.post("/users/", userName="x", password="a long pass phrase", roles=[{"id": 987654}])
    assert sources(roles) == [{"pointer": "/data/attributes/roles"}]
    own = admin.patch("/users/", newPassword="another pass phrase", currentPassword="wrong")
    assert sources(own) == [{"pointer": "/data/attributes/currentPassword"}]
    assert own.json()["message"] == "currentPassword: is wrong."
    licence = admin.post("/licence/", licenceKey="x")
    assert sources(licence) == [{"pointer": "/data/attributes/licenceKey"}]
    role = admin.post("/roles/", name="a/b")
    assert sources(role) == [{"pointer": "/data/attributes/name"}]


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"data": {"attributes": {}}, "dta": 1}, "/dta"),
        ({"data": {"attributes": {}, "a/b~": 1}}, "/data/a~1b~0"),
        ({"data": {"attributes": {"a.b/c": 1}}}, "/data/attributes/a.b~1c"),
        ({"data": {"attributes": {}, "type": 5}}, "/data/type"),
        ({"data": {"attributes": {}, "id": []}}, "/data/id"),
        ({"data": {"attributes": {"id": "x", "name": "y"}}}, "/data/attributes/id"),
    ],
)
def test_a_pointer_leads_to_the_member_that_is_wrong(admin, document, pointer):
    response = admin.send("PATCH", "/roles/", json=document)
    refused(response, 400, "ValidationError")
    assert sources(response) == [{"pointer": pointer}]


def test_errors_outside_of_resources_are_the_same(admin, nobody):
    refused(nobody.get("/schema/?format=xml"), 400, "ValidationError", "format: must be json or yaml.")
    assert sources(nobody.get("/schema/?format=xml")) == [{"parameter": "format"}]
    refused(nobody.send("POST", "/healthz"), 405, "MethodNotAllowed")
    refused(nobody.get("/v1/nosuch"), 404, "NotFound")
    refused(nobody.get("/metrics", headers={"X-Forwarded-For": "x"}), 401, "AuthenticationFailed")
