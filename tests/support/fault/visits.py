"""Visitors of the management API and of the console who write: each visit logs in, changes rows and logs out."""

from collections.abc import Callable
from contextlib import closing

import requests
from django.db.models import Model

from accounts.models import User
from keys.models import ApiKey
from licensing.models import Limit
from rules.models import Rule
from telemetry.models import CacheEntry
from tests.fault.test_signing_keys import console_session
from tests.support.console.forms import fields_of
from tests.support.logins import by_refresh, logged_in
from tests.support.management import Client
from tests.support.world import AMPLE, World

READ = ("/logs/?page[size]=5", "/cache/", "/keys/", "/stats/")
READ_IN_CONSOLE = ("", "telemetry/logentry/", "telemetry/cacheentry/", "keys/apikey/", "rules/rule/")


def visit_api(world: World, admin: User) -> Callable[[], None]:
    """A login whose tokens expire, reads and writes with it, a refresh and its end."""

    def once() -> None:
        tokens = logged_in(Client(world.gateway.url), username=admin.username)
        with closing(Client(world.gateway.url, tokens["SvcUserCookie"]).session) as session:
            client = Client(world.gateway.url)
            client.session = session
            for path in READ:
                expect(client.get(path))
            write_by_api(world, client)
            expect(by_refresh(Client(world.gateway.url), tokens["SvcAuthCookie"]))
            expect(client.post("/auth/logout"))

    return once


def write_by_api(world: World, client: Client) -> None:
    """A key that comes and goes, a rule, a limit and a cached answer."""
    name = world.name("key")
    expect(client.post("/keys/", name=name), 201)
    key = ApiKey.objects.get(name=name)
    expect(client.patch(f"/keys/{key.pk}/", locked=True))
    expect(client.delete(f"/keys/{key.pk}/"))
    rule, limit = Rule.objects.get(user=world.user), Limit.objects.get(user=world.user, measure="tokens")
    expect(client.patch(f"/rules/{rule.pk}/", description=name))
    expect(client.patch(f"/limits/{limit.pk}/", amount=AMPLE + key.pk))
    if entry := CacheEntry.objects.filter(model=world.model).first():
        expect(client.delete(f"/cache/{entry.pk}/"), 200, 404)  # 404: it has just expired


def visit_console(world: World, admin: User) -> Callable[[], None]:
    """The same in the console, with the forms that its pages show."""

    def once() -> None:
        with console_session(world.gateway.url, admin) as session:
            console = Console(session, f"{world.gateway.url}/admin/")
            for path in READ_IN_CONSOLE:
                expect(console.get(path))
            write_in_console(world, console)
            expect(console.post("logout/"))

    return once


class Console:
    """A session of the console; its forms are sent as their pages show them, but for some fields."""

    def __init__(self, session: requests.Session, url: str) -> None:
        self.session, self.url = session, url

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.url + path, timeout=30)

    def post(self, path: str, **fields: object) -> requests.Response:
        headers = {"X-CSRFToken": self.session.cookies["csrftoken"], "Referer": self.url}
        return self.session.post(self.url + path, data=fields, headers=headers, timeout=30)

    def save(self, path: str, **fields: object) -> None:
        """Send the form of a page with these fields changed; an error in a form answers 200 on the same page."""
        page = expect(self.get(path))
        answer = expect(self.post(path, **fields_of(page.text) | fields))
        assert "errorlist" not in answer.text, answer.text


def write_in_console(world: World, console: Console) -> None:
    name = world.name("key")
    console.save("keys/apikey/add/", name=name, owner=world.user.pk)
    key = ApiKey.objects.get(name=name)
    expect(console.post(f"{path_of(key)}lock/", post="yes"))
    expect(console.post(f"{path_of(key)}delete/", post="yes"))
    key.refresh_from_db()
    assert (key.is_deleted, key.locked_time is None) == (True, False)
    console.save(f"{path_of(Rule.objects.get(user=world.user))}change/", description=name)
    console.save(f"{path_of(Limit.objects.get(user=world.user, measure='requests'))}change/", amount=AMPLE + key.pk)
    purged = expect(console.post("telemetry/cacheentry/purge/", confirm="yes"))
    assert "from the cache" in purged.text, purged.text[:500]


def path_of(row: Model) -> str:
    """The address of a row's pages in the console."""
    return f"{row._meta.app_label}/{row._meta.model_name}/{row.pk}/"


def expect(answer: requests.Response, *statuses: int) -> requests.Response:
    assert answer.status_code in (statuses or (200,)), f"{answer.request.method} {answer.url}: {answer.text[:500]}"
    return answer
