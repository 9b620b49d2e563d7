"""The steps of a login with a second factor, on the pages of the console and of users."""

import json
import re

from django.test import Client

from telemetry.audit.models import AuditEntry
from tests.support.management import PASSWORD

ORIGIN = "http://testserver"
OPTIONS = re.compile(r'<script id="passkey-options" type="application/json">(.*?)</script>')


def enter(client: Client, site: str, username: str = "boss", password: str = PASSWORD, **more):
    """The first step of a login."""
    return client.post(f"/{site}/login/", {"username": username, "password": password, **more})


def give(client: Client, site: str, **values):
    """The second step."""
    return client.post(f"/{site}/login/code/", values)


def is_in(client: Client, site: str) -> bool:
    return client.get(f"/{site}/second-factor/").status_code == 200


def options_on(page) -> dict:
    return json.loads(OPTIONS.search(page.text).group(1))


def actions() -> list[str]:
    return list(AuditEntry.objects.filter(resource="users").order_by("id").values_list("action", flat=True))
