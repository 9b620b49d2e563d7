"""A client of the management API: whoever it logs in as, it speaks HTTP to a running server."""

import itertools
from datetime import timedelta
from typing import Any

import requests
from django.utils import timezone

from accounts import tokens
from accounts.models import Feature, Role, Session, User
from accounts.services import create_user
from tests.support.pace import patience

JSON_API = "application/vnd.api+json"
PASSWORD = "a long pass phrase"
_numbers = itertools.count(1)


def new_user(*features: str, **options: Any) -> User:
    """A user with the role user, or with a role of their own that grants exactly these features."""
    number = next(_numbers)
    if features:
        role = Role.objects.create(name=f"role-{number}")
        role.features.set(Feature.objects.filter(name__in=features))
        options.setdefault("roles", [role.name])
    return create_user(**{"username": f"user-{number}", "password": PASSWORD} | options)


def new_admin(**options: Any) -> User:
    return new_user(**{"username": f"admin-{next(_numbers)}", "roles": ["admin", "user"]} | options)


def token_of(user: User, key: str = "") -> str:
    """An access token of a new session, which may name a key by its public id."""
    session = Session.objects.create(user=user, expires_at=timezone.now() + timedelta(days=1))
    return tokens.issue_access(user_id=user.pk, session=session.pk.hex, key=key)


class Client:
    """Sends requests as one caller: `credential` is what stands after Bearer, if anything does."""

    def __init__(self, base: str, credential: str | None = None) -> None:
        self.base = base
        self.session = requests.Session()
        self.session.headers["Accept"] = JSON_API
        if credential is not None:
            self.session.headers["Authorization"] = f"Bearer {credential}"

    def as_user(self, user: User) -> "Client":
        """The same server, asked by a login of this user."""
        return Client(self.base, token_of(user))

    def with_credential(self, credential: str) -> "Client":
        return Client(self.base, credential)

    def send(self, method: str, path: str, *, flat: bool = False, **options: Any) -> requests.Response:
        """Whatever is given goes to requests as it is; a body given as bytes is JSON:API unless told."""
        headers = dict(options.pop("headers", {}))
        if flat:
            headers["Accept"] = "application/json"
        if isinstance(options.get("data"), bytes):
            headers.setdefault("Content-Type", JSON_API)
        options.setdefault("allow_redirects", False)
        return self.session.request(method, self.base + path, headers=headers, timeout=patience(10), **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.send("GET", path, **options)

    def post(self, path: str, /, **attributes: Any) -> requests.Response:
        return self.send("POST", path, json=body(**attributes))

    def patch(self, path: str, /, **attributes: Any) -> requests.Response:
        return self.send("PATCH", path, json=body(**attributes))

    def delete(self, path: str, **options: Any) -> requests.Response:
        return self.send("DELETE", path, **options)

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The flat elements of a list."""
        response = self.get(path, flat=True)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def every_row(self, path: str) -> list[dict[str, Any]]:
        """The flat elements of all pages of a list."""
        total = self.get(path, flat=True).json()["meta"]["totalCount"]
        pages = range(1, 1 + -(-total // 100))
        return [row for number in pages for row in self.rows(f"{path}?page[size]=100&page[number]={number}")]


def body(**attributes: Any) -> dict[str, Any]:
    """The envelope around attributes."""
    return {"data": {"attributes": attributes}}


def refused(response: requests.Response, code: int, exception: str, *words: str) -> str:
    """The response is this error, in the one shape that errors have; its message."""
    result = _refusal(response, code, exception)
    for word in words:
        assert word in result, result
    return result


def _refusal(response: requests.Response, code: int, exception: str) -> str:
    """The response is this error; its message."""
    assert response.status_code == code, response.text
    assert response.headers["X-Svc-Request-ID"]
    document = response.json()
    assert document.keys() == {"code", "exception", "message", "errors"}
    assert (document["code"], document["exception"]) == (code, exception)
    assert document["errors"]
    for one in document["errors"]:
        assert one.keys() - {"source"} == {"status", "code", "title", "detail"}
        assert (one["status"], one["code"]) == (str(code), exception)
        assert one["detail"] in document["message"]
    return document["message"]
