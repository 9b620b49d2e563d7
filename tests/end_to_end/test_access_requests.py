"""What an access request grants for a time: in force and gone within a second, also after a restart."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.access_requests.models import AccessRequest
from accounts.services import create_group
from licensing.services import set_limit
from tests.support.management import Client, new_admin, refused, token_of
from tests.support.pace import bound, patience
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

SECONDS = 4.0


@pytest.fixture
def clients(world):
    """The user and an administrator."""
    return [Client(world.gateway.url, token_of(user)) for user in (world.user, new_admin())]


def granted(clients, seconds: float | None = SECONDS, **attributes) -> AccessRequest:
    as_user, as_admin = clients
    response = as_user.post("/access-requests/", reason="why", **attributes)
    assert response.status_code == 201, response.text
    request_id = response.headers["AccessRequestId"]
    until = None if seconds is None else (timezone.now() + timedelta(seconds=seconds)).isoformat()
    response = as_admin.post(f"/access-requests/{request_id}/grant/", until=until)
    assert response.status_code == 200, response.text
    return AccessRequest.objects.get(pk=request_id)


def wait_for_end(request: AccessRequest) -> None:
    """A second after the end, more on a busy machine."""
    time.sleep(max((request.ends_at - timezone.now()).total_seconds(), 0) + min(bound(1), patience(1) / 3))


@promise("What is granted for a time ends by itself", target="1 s after its end in every process", suite="fault")
def test_a_model_is_allowed_until_its_time(world, clients):
    world.provider()
    world.settle()
    refused(world.ask(), 403, "RuleDenied")
    request = granted(clients, kind="model", model=world.model)
    world.soon(world.ask, 200)
    assert timezone.now() < request.ends_at
    wait_for_end(request)
    refused(world.ask("again"), 403, "RuleDenied")
    assert AccessRequest.objects.get(pk=request.pk).state == "ended"


def test_a_membership_counts_until_its_time(world, clients):
    world.provider()
    group = create_group(name=world.name("group"))
    world.allow(group=group)
    world.settle()
    request = granted(clients, kind="membership", groupName=group.name)
    world.soon(world.ask, 200)
    wait_for_end(request)
    refused(world.ask("again"), 403, "RuleDenied")


def test_a_limit_is_higher_until_its_time(world, clients):
    world.provider()
    world.allow()
    set_limit(user=world.user, measure="requests", window="day", amount=1)
    world.settle()
    assert world.ask("first").status_code == 200
    refused(world.ask("second"), 429, "QuotaExceeded")
    request = granted(clients, kind="limit", measure="requests", window="day", amount=100)
    world.soon(lambda: world.ask(world.name("prompt")), 200)
    wait_for_end(request)
    refused(world.ask("third"), 429, "QuotaExceeded")


@pytest.mark.long
def test_what_ended_while_nothing_ran_is_not_in_force(own_gateway, monkeypatch):
    world = own_gateway()
    world.provider()
    clients = [Client(world.gateway.url, token_of(user)) for user in (world.user, new_admin())]
    request = granted(clients, seconds=1000, kind="model", model=world.model)
    world.soon(world.ask, 200)
    world.gateway.stop()
    AccessRequest.objects.filter(pk=request.pk).update(ends_at=timezone.now())
    world.gateway.start()
    time.sleep(patience(1) / 3)
    refused(world.ask("again"), 403, "RuleDenied")
