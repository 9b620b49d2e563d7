"""The causes of errors, which name exceptions and internal addresses, are for admins: nobody else reads them."""

import socket
from html import unescape

import pytest
import requests

from accounts.models import User
from accounts.services import add_member, create_group
from telemetry.models import LogEntry
from tests.support.management import PASSWORD, Client, new_admin, new_user
from tests.support.promises import promise
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

PROBLEMS = ("refused", "garbage")


def failing_provider(world, problem: str) -> str:
    """A provider that fails; a word that only the cause of its errors has."""
    if problem == "garbage":
        world.provider().default = Answer(raw=b"garbage\r\n\r\n")
        return "InvalidResponse"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        world.provider(url=f"http://127.0.0.1:{closed.getsockname()[1]}")
    return "Refused"


def texts_of(client: Client, entry: LogEntry, group: int) -> str:
    """All that the API says to this caller of a request and of what was logged with it."""
    lists = ("", "?type=Message", f"?search={entry.correlation_id}", f"?groupId={group}", f"?id={entry.user_id}")
    ids = LogEntry.objects.filter(correlation_id=entry.correlation_id).values_list("pk", flat=True)
    parts = [f"/logs/{number}/{part}" for number in ids for part in ("", "explanation/", "comparison/")]
    paths = [f"/logs/{query}" for query in lists] + parts
    return "".join(client.get(path).text for path in paths)


def pages_of(url: str, user: User, entry: LogEntry, group: int) -> str:
    """All that the pages at /me/ show this user of the same."""
    session = requests.Session()
    session.get(f"{url}/me/login/", timeout=30)
    form = {"username": user.username, "password": PASSWORD, "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    assert session.post(f"{url}/me/login/", data=form, timeout=30).url == f"{url}/me/"
    ids = LogEntry.objects.filter(correlation_id=entry.correlation_id).values_list("pk", flat=True)
    lists = ("requests/", f"groups/{group}/log/")
    paths = [*lists, *(f"{path}{number}/" for path in lists for number in ids)]
    return "".join(session.get(f"{url}/me/{path}", timeout=30).text for path in paths)


@promise("Causes of errors, which name internal addresses, are for admins", target="not in /logs/, /me/, explanations")
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_cause_is_read_by_admins_alone(world, problem):
    cause, group = failing_provider(world, problem), create_group(name=world.name("team"))
    member = add_member(group, user_id=world.new_user().pk)
    boss = add_member(group, user_id=world.new_user().pk, is_admin=True)
    world.allow(group=group)
    key = world.new_key(owner=member).text
    response = world.ask(key=key)
    assert response.status_code == 502, response.text
    entry, message = world.entry(response), world.entry(response, kind="Message")
    assert cause in message.message
    # As versions before wrote it, which left the groups.
    LogEntry.objects.filter(pk=message.pk).update(group_ids=[group.pk])

    everybody = Client(world.gateway.url)
    texts = {
        name: texts_of(everybody.as_user(user), entry, group.pk)
        for name, user in {
            "owner": member,
            "group admin": boss,
            "logs.view_all": new_user("work", "logs.view_all", "rules.view"),
        }.items()
    }
    for name, text in texts.items():
        assert cause not in text, name
        assert response.json()["message"] in text, f"{name} sees the entry itself"
        assert f'"id":{message.pk},' not in text, name
    for user, own in ((member, f"requests/{entry.pk}/"), (boss, f"groups/{group.pk}/log/{entry.pk}/")):
        pages = pages_of(world.gateway.url, user, entry, group.pk)
        assert f'href="/me/{own}"' in pages, "they see the entry itself"
        assert response.json()["message"] in unescape(pages)
        assert cause not in pages
        assert f'/{message.pk}/"' not in pages
    assert cause in texts_of(everybody.as_user(new_admin()), entry, group.pk)
    admins_key = world.new_key(owner=new_admin(), permissions=["logs.view_all"]).text
    world.settle()
    assert cause not in texts_of(everybody.with_credential(admins_key), entry, group.pk)


def test_a_cause_is_of_no_group(world):
    failing_provider(world, "garbage")
    group = create_group(name=world.name("team"))
    member = add_member(group, user_id=world.new_user().pk)
    world.allow(group=group)
    key = world.new_key(owner=member).text
    response = world.ask(key=key)
    assert group.pk in world.entry(response).group_ids
    message = world.entry(response, kind="Message")
    assert (message.user_id, message.group_ids) == (None, [])
