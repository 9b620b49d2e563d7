"""A directory: it speaks SCIM to a server in this process."""

from typing import Any

import pytest
import requests

from tests.support.management import Client

TOKEN = "a-token-of-the-directory-0123456789abcdef"
MESSAGES = "urn:ietf:params:scim:api:messages:2.0"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"


class Directory:
    """Sends requests below /scim/v2 with the token."""

    def __init__(self, base: str, token: str = TOKEN) -> None:
        self.base = f"{base}/scim/v2"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def send(self, method: str, path: str, document: Any = None, **options: Any) -> requests.Response:
        headers = options.pop("headers", {}) | ({"Content-Type": "application/scim+json"} if document else {})
        return self.session.request(method, self.base + path, json=document, headers=headers, timeout=30, **options)

    def get(self, path: str, **parameters: Any) -> Any:
        """The document at a path."""
        response = self.send("GET", path, params=parameters)
        assert response.status_code == 200, response.text
        assert response.headers["Content-Type"] == "application/scim+json"
        return response.json()

    def names(self, path: str, filter: str, **parameters: Any) -> list[str]:
        """The names of the users or groups that a filter selects."""
        page = self.get(path, filter=filter, **parameters)
        return [row.get("userName") or row["displayName"] for row in page["Resources"]]

    def new_user(self, name: str, **attributes: Any) -> Any:
        """The document of a user who is new."""
        return self.created("/Users", {"schemas": [USER], "userName": name, **attributes})

    def new_group(self, name: str, *user_ids: str, **attributes: Any) -> Any:
        members = {"members": [{"value": user_id} for user_id in user_ids]}
        return self.created("/Groups", {"schemas": [GROUP], "displayName": name, **members, **attributes})

    def created(self, path: str, document: Any) -> Any:
        response = self.send("POST", path, document)
        assert response.status_code == 201, response.text
        return response.json()

    def patch(self, path: str, *operations: dict[str, Any], status: int = 200) -> Any:
        """The document after a PATCH."""
        message = {"schemas": [f"{MESSAGES}:PatchOp"], "Operations": list(operations)}
        response = self.send("PATCH", path, message)
        assert response.status_code == status, response.text
        return response.json()


def error(response: requests.Response, status: int, scim_type: str = "") -> str:
    """The response is this error in SCIM's shape; its sentence."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/scim+json"
    assert response.headers["X-Svc-Request-ID"]
    document = response.json()
    assert document["schemas"] == [f"{MESSAGES}:Error"]
    assert (document["status"], document.get("scimType", "")) == (str(status), scim_type)
    return document["detail"]


@pytest.fixture
def directory(nobody: Client, settings) -> Directory:
    settings.GATEWAY_SCIM_TOKEN = TOKEN
    return Directory(nobody.base)
