"""A group whose admin decides access requests, and what its tests ask for."""

from datetime import timedelta

from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from gateway_project.access_requests.ending import end_due_requests

PATH = "/access-requests/"
MODEL = {"kind": "model", "model": "gpt-5", "reason": "For the evaluation."}
LIMIT = {"kind": "limit", "measure": "requests", "window": "day", "amount": 500, "reason": "A migration."}


def ask(client, **attributes) -> str:
    """The path of a new request."""
    response = client.post(PATH, **attributes)
    assert response.status_code == 201, response.text
    return f"{PATH}{response.headers['AccessRequestId']}/"


def row(client, path):
    response = client.get(path, flat=True)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def let_end(path) -> None:
    """The time of the grant comes."""
    AccessRequest.objects.filter(pk=path.split("/")[2]).update(ends_at=timezone.now())
    assert end_due_requests() == 1


def in_an_hour() -> str:
    return (timezone.now() + timedelta(hours=1)).isoformat()


def membership(group):
    return {"kind": "membership", "groupName": group.name, "reason": "I work there now."}
