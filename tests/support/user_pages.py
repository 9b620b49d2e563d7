"""A browser at /me/, and what it asks for there."""

from django.test import Client

from accounts.access_requests.models import AccessRequest
from tests.support.management import PASSWORD

SCRIPT = "<script>alert(1)</script>"
ASKED = {
    "model": {"model": "gpt-5", "reason": "why"},
    "membership": {"group": "search", "reason": "why"},
    "limit": {"measure": "concurrent", "window": "day", "amount": "500", "reason": "why"},
}


def log_in(user) -> Client:
    client = Client()
    assert client.post("/me/login/", {"username": user.username, "password": PASSWORD}).status_code == 302
    return client


def ask(browser, kind="membership", **values) -> AccessRequest:
    assert browser.post(f"/me/access/new/{kind}/", ASKED[kind] | values).status_code == 302
    return AccessRequest.objects.latest("id")
