"""The keys that sign sessions and tokens are rotated as docs/operations.md says, under load: no request fails."""

import itertools
import re
import threading

import pytest
import requests

from tests.support.load import wait_until
from tests.support.logins import by_refresh, logged_in
from tests.support.management import PASSWORD, Client, new_admin
from tests.support.promises import promise
from tests.support.thoroughness import first_of

pytestmark = pytest.mark.either_store

OLD, NEW = "o" * 40, "n" * 40


class Visitors:
    """Three callers with credentials from before the rotation, at whichever replica is in the balancer's list."""

    def __init__(self, world, admin, urls):
        self.world, self.urls, self.failures, self.count = world, urls, [], 0
        self._stop = threading.Event()
        tokens = logged_in(Client(urls[0]), username=admin.username)
        self.token, self.refresh_token = tokens["SvcUserCookie"], tokens["SvcAuthCookie"]
        self.console = console_session(urls[0], admin)
        visits = (self.work_with_key, self.work_with_token, self.manage, self.look_at_console)
        self._threads = [threading.Thread(target=self._run, args=[visit]) for visit in visits]

    def work_with_key(self, url, number):
        return self._work(url, number, self.world.key)

    def work_with_token(self, url, number):
        return self._work(url, number, self.token)

    def manage(self, url, number):
        return requests.get(f"{url}/rules/", headers={"Authorization": f"Bearer {self.token}"}, timeout=30)

    def look_at_console(self, url, number):
        # As a browser does it: a session that the old key has signed gets a new cookie.
        return self.console.get(f"{url}/admin/", timeout=30, allow_redirects=False)

    def _work(self, url, number, credential):
        body = {"model": self.world.model, "messages": [{"role": "user", "content": f"{credential[:9]} {number // 3}"}]}
        return requests.post(f"{url}/work", json=body, headers={"Authorization": f"Bearer {credential}"}, timeout=30)

    def _run(self, visit):
        for number in itertools.count():
            if self._stop.wait(0.05):
                return
            url = self.urls[number % len(self.urls)]
            try:
                response = visit(url, number)
                if response.status_code != 200:
                    self.failures.append((visit.__name__, response.status_code, response.text[:200]))
            except requests.RequestException as error:
                # A visitor may knock at a replica that left the list a moment ago; a balancer asks the next one.
                if url in self.urls or "Connection refused" not in str(error):
                    self.failures.append((visit.__name__, error))
            self.count += 1

    def all_served(self, more=40):
        until = self.count + more
        wait_until(lambda: self.count >= until or self.failures, seconds=60)
        assert self.failures == []

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self._stop.set()
        for thread in self._threads:
            thread.join(40)


def console_session(url, admin):
    """A browser, as far as cookies go, that is logged in at the console."""
    session = requests.Session()
    page = session.get(f"{url}/admin/login/", timeout=30)
    form = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[1]
    fields = {"username": admin.username, "password": PASSWORD, "csrfmiddlewaretoken": form}
    answer = session.post(f"{url}/admin/login/", data=fields, headers={"Referer": url}, timeout=30)
    assert "SvcConsole" in session.cookies, answer.text
    return session


@promise("The keys that sign sessions and tokens are rotated under load without a failed request", target="0 failed")
@pytest.mark.timeout(300)  # it starts seven gateways under load
@pytest.mark.parametrize("name", first_of("SECRET_KEY", "GATEWAY_TOKEN_KEY"))
def test_a_signing_key_is_rotated_while_replicas_serve(start, name, figure):
    def starting(which, key, *fallbacks):
        return start(which, **{name: key, f"{name}_FALLBACKS": ",".join(fallbacks)})

    replicas = {which: starting(which, OLD) for which in ("one", "two")}
    world = replicas["one"]
    admin = new_admin(username=world.name("admin"))
    world.allow()
    world.allow(user=admin)
    world.provider()
    assert world.ask().status_code == 200
    urls = [replica.gateway.url for replica in replicas.values()]

    with Visitors(world, admin, urls) as visitors:
        visitors.all_served()
        old_token = visitors.token
        for key, fallback in ((OLD, NEW), (NEW, OLD)):
            for which in ("one", "two"):
                new = starting(which, key, fallback)
                urls.append(new.gateway.url)
                urls.remove(replicas[which].gateway.url)  # as a balancer does before a replica stops
                assert replicas[which].gateway.stop() == 0
                replicas[which] = new
                visitors.all_served()
        for url in urls:
            refresh = by_refresh(Client(url), visitors.refresh_token, flat=True)
            assert refresh.status_code == 200, refresh.text
            visitors.token, visitors.refresh_token = refresh.json()["accessToken"], refresh.json()["refreshToken"]
    assert visitors.failures == []
    last = starting("last", NEW)
    assert visitors.work_with_token(last.gateway.url, 0).status_code == 200  # the new key has signed it
    visitors.token = old_token
    assert visitors.work_with_token(last.gateway.url, 0).status_code == 401
    assert visitors.work_with_key(last.gateway.url, 0).status_code == 200
    assert visitors.look_at_console(last.gateway.url, 0).status_code == 200
    figure(f"{visitors.count} requests, 0 failed")
    for ended in (*replicas.values(), last):
        ended.gateway.stop()
    start("books")  # one that accepts the tokens of the tests
