"""Writes that cross: one that refers to what is deleted at the same time, or to what others change."""

import itertools
import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from accounts.models import Group, User
from accounts.services import create_group, update_user
from licensing.models import Limit
from providers.services import create_provider, set_price
from rules.models import Rule
from tests.support.management import JSON_API, PASSWORD, new_admin, new_user, refused, token_of
from tests.support.thoroughness import first_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.either_store]
_numbers = itertools.count(1)


def delete_elsewhere(group):
    """It is deleted by somebody else, who does not wait for us."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {Group._meta.db_table} WHERE id = %s", [group.pk])


def refer_to(group):
    """Somebody else sets a limit for it, and does not wait for us."""
    Limit.objects.create(group_id=group.pk, measure="requests", window="day", amount=1)


def test_what_refers_to_a_row_that_was_deleted_meanwhile_is_a_conflict(admin, monkeypatch):
    from licensing.services import set_limit

    group = create_group(name="team")
    monkeypatch.setattr(
        "licensing.services.set_limit", lambda **values: (set_limit(**values), delete_elsewhere(group))[0]
    )
    attributes = {"groupId": group.pk, "measure": "requests", "window": "day", "amount": 5}
    refused(admin.post("/limits/", **attributes), 409, "Conflict", "Nothing was saved", "at the same time")
    assert not Limit.objects.exists()
    assert Group.objects.exists()


def test_a_role_that_is_taken_away_does_not_come_back_with_what_its_holder_sends(nobody, admin, monkeypatch):
    boss = new_admin()
    roles = [{"id": role.pk} for role in boss.roles.all()]

    def take_away(caller, user):
        update_user(User.objects.get(pk=boss.pk), role_ids=[])

    monkeypatch.setattr("accounts.viewsets.check_manageable", take_away)
    refused(nobody.as_user(boss).patch("/users/", displayName="x", roles=roles), 403, "PermissionDenied", "roles")


@pytest.mark.parametrize("fate", ["demoted", "deactivated"])
def test_who_sends_a_body_slowly_has_the_rights_of_its_end(world, fate):
    boss = new_admin(username=world.name("boss"))
    new_admin(username=world.name("other"))
    roles = [{"id": role.pk} for role in boss.roles.all()]
    end = json.dumps({"data": {"attributes": {"roles": roles, "active": True}}}).encode()
    blanks = b" " * 30_000  # enough for a thread to begin with it
    head = (
        f"PATCH /users/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON_API}\r\nConnection: close\r\n"
        f"Authorization: Bearer {token_of(boss)}\r\nContent-Length: {len(blanks) + len(end)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20) as client:
        client.sendall(head.encode() + blanks)
        time.sleep(0.5)
        if fate == "demoted":
            update_user(boss, role_ids=[])
        else:
            update_user(boss, is_active=False)
        client.sendall(end)
        status = client.makefile("rb").readline().split()[1]
    boss = User.objects.get(pk=boss.pk)
    assert (status, boss.is_admin and boss.is_active) == (b"403" if fate == "demoted" else b"401", False)


@pytest.mark.long
@pytest.mark.parametrize("action", ["page", "list"])
def test_the_console_tells_it_on_a_page(client, monkeypatch, action):
    from accounts.services import delete_group

    def crossed(group):
        rest = Group(pk=group.pk)
        delete_group(group)
        refer_to(rest)

    group = create_group(name="team")
    monkeypatch.setattr("accounts.services.delete_group", crossed)
    login(client)
    path = "/admin/accounts/group/"
    if action == "page":
        answer = client.post(f"{path}{group.pk}/delete/", {"post": "yes"}, follow=True)
    else:
        chosen = {"action": "delete_selected", "_selected_action": group.pk, "post": "yes"}
        answer = client.post(path, chosen, follow=True)
    assert "Nothing was saved" in answer.text
    assert Group.objects.exists()


@pytest.mark.long
def test_the_console_tells_it_of_a_form(client, monkeypatch):
    from accounts.services import create_group

    def crossed(**values):
        group = create_group(**values)
        refer_to(group)
        delete_elsewhere(group)
        return group

    monkeypatch.setattr("accounts.services.create_group", crossed)
    login(client)
    answer = client.post("/admin/accounts/group/add/", {"name": "team", "_seen": ""}, follow=True)
    assert "Nothing was saved" in answer.text


def login(client):
    client.post("/admin/login/", {"username": new_admin().username, "password": PASSWORD})


# -- At one moment, in PostgreSQL ------------------------------------------------------------------------


def at_once(*requests):
    """The statuses of requests that are sent at one moment, in no order."""
    waiting = random.sample(requests, len(requests))
    with ThreadPoolExecutor(len(waiting)) as pool:
        return {response.status_code for response in pool.map(lambda send: send(), waiting)}


def sends(admin, method, path, **attributes):
    client = admin.with_credential(admin.session.headers["Authorization"].removeprefix("Bearer "))
    return lambda: client.send(method, path, json={"data": {"attributes": attributes}})


def limit_of(subject):
    return {**subject, "measure": "requests", "window": "day", "amount": 5}


def rule_for(subject):
    return {**subject, "name": f"rule-{next(_numbers)}"}


@pytest.mark.servers
@pytest.mark.parametrize("beside", first_of("members", "rule", "member", "limit", values=2))
def test_a_groups_deletion_beside_what_refers_to_it(admin, beside):
    users = [new_user() for _ in range(6)]
    for _ in range(6):
        group = create_group(name=f"team-{next(_numbers)}", member_ids=[users[0].pk])
        path, subject = f"/groups/{group.pk}/", {"groupId": group.pk}
        others = {
            "members": [
                sends(admin, "PATCH", path, members=[{"id": user.pk} for user in random.sample(users, 3)])
                for _ in range(4)
            ],
            "member": [sends(admin, "POST", f"{path}members/", id=user.pk) for user in users[:4]],
            "limit": [sends(admin, "POST", "/limits/", **limit_of(subject)) for _ in range(2)],
            "rule": [sends(admin, "POST", "/rules/", **rule_for(subject)) for _ in range(4)],
        }
        result = at_once(*others[beside], *[sends(admin, "DELETE", path) for _ in range(2)])
        assert result <= {200, 201, 400, 404, 409}
        assert 200 in result  # one of the deletions did it
        assert not Group.objects.filter(pk=group.pk).exists()
        assert not Rule.objects.exclude(group=None).exists()


@pytest.mark.servers
@pytest.mark.parametrize("beside", first_of("models", "keys", "limits", "prices", "price", values=2))
def test_a_providers_deletion_beside_what_refers_to_it(admin, beside):
    amounts = {"currency": "USD", "input": 1, "output": 1}
    for number in range(6):
        provider = create_provider(name=f"p-{number}", url="https://a.example", format_name="openai", models=["m"])
        price = set_price(provider=provider, model="m", **amounts)
        path, subject = f"/providers/{provider.pk}/", {"providerId": provider.pk}
        names = [f"n-{next(_numbers)}" for _ in range(4)]
        others = {
            "models": [sends(admin, "POST", f"{path}models/", name=name) for name in names],
            "keys": [sends(admin, "POST", "/keys/", name=name, provider=provider.pk) for name in names],
            "limits": [sends(admin, "POST", "/limits/", **limit_of(subject)) for _ in range(2)],
            "prices": [sends(admin, "POST", "/prices/", **subject, model=name, **amounts) for name in names],
            "price": [sends(admin, "PATCH", f"/prices/{price.pk}/", input=n) for n in (2, 3)],
        }
        result = at_once(*others[beside], *[sends(admin, "DELETE", path) for _ in range(2)])
        assert result <= {200, 201, 400, 404, 409}


@pytest.mark.servers
def test_of_identical_limits_at_one_moment_one_is_set(admin):
    for _ in range(6):
        subject = {"userId": new_user().pk}
        result = at_once(*[sends(admin, "POST", "/limits/", **limit_of(subject)) for _ in range(4)])
        assert result == {201, 409}
