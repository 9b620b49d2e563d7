"""What was cached before a purge is gone after it, also what no process has listed in the database yet."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from django.utils import timezone

from telemetry.models import CacheEntry
from tests.support.management import PASSWORD, Client, new_admin
from tests.support.world import World

# Nobody ships by himself while a test runs.
LAZY = {"GATEWAY_LOG_INTERVAL": "60"}


def caching(start, name: str = "one", **environ: str) -> World:
    world = start(name, **(LAZY | environ))
    world.allow()
    world.provider()
    return world


def cache_status(world: World, asked: World, prompt: str, *, stream: bool = False) -> str:
    """What the cache of one gateway says to what another one's world arranged; over a connection of its own."""
    body = {"model": asked.model, "messages": [{"role": "user", "content": prompt}], "stream": stream}
    headers = {"Authorization": f"Bearer {asked.key}", "Connection": "close"}
    response = requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=30)
    assert response.status_code == 200, response.text
    return response.headers["X-Svc-Cache"]


def admin_of(world: World) -> Client:
    return Client(world.gateway.url).as_user(new_admin())


def purge_in_console(world: World, user) -> None:
    with requests.Session() as session:
        login = f"{world.gateway.url}/admin/login/"
        session.get(login)
        session.headers["X-CSRFToken"] = session.cookies["csrftoken"]
        session.post(login, data={"username": user.username, "password": PASSWORD})
        session.headers["X-CSRFToken"] = session.cookies["csrftoken"]
        path = "/admin/telemetry/cacheentry/purge/"
        answer = session.post(f"{world.gateway.url}{path}", data={"confirm": "yes"}, timeout=30)
        assert "removed from the cache" in answer.text


@pytest.mark.parametrize("stream", [pytest.param(False, marks=pytest.mark.slow), True], ids=["whole", "stream"])
def test_an_answer_is_purged_as_soon_as_it_is_cached(start, stream):
    world = caching(start)
    admin = admin_of(world)
    for number in range(10):
        prompt = f"purged {number}"
        assert cache_status(world, world, prompt, stream=stream) == "MISS"
        if number % 2:
            assert cache_status(world, world, prompt, stream=stream) == "HIT"
        assert admin.delete(f"/cache/?search={world.model}").status_code == 200
        assert not CacheEntry.objects.filter(model=world.model)
        assert cache_status(world, world, prompt, stream=stream) == "MISS"


@pytest.mark.either_store
def test_the_filters_select_among_what_was_just_cached(start):
    world = caching(start)
    cache_status(world, world, "stays")
    now = timezone.now().isoformat().replace("+00:00", "Z")
    cache_status(world, world, "goes")
    assert admin_of(world).delete(f"/cache/?start={now}").status_code == 200
    assert [cache_status(world, world, prompt) for prompt in ("stays", "goes")] == ["HIT", "MISS"]


@pytest.mark.either_store
def test_the_console_purges_what_was_just_cached(start):
    world = caching(start)
    user = new_admin()
    cache_status(world, world, "purged")
    purge_in_console(world, user)
    assert not CacheEntry.objects.filter(model=world.model)
    assert cache_status(world, world, "purged") == "MISS"


@pytest.mark.servers
def test_every_process_lists_what_it_cached_before_a_purge(start):
    one = caching(start, WEB_CONCURRENCY="2")
    two = start("two", WEB_CONCURRENCY="2", **LAZY)
    assert {cache_status(world, one, world.model) for world in (one, two)} == {"MISS"}
    for number, world in enumerate([one, two] * 3):
        prompts = [f"purged {number} {place}" for place in range(16)]
        with ThreadPoolExecutor(8) as pool:
            assert {*pool.map(lambda prompt: cache_status(one, one, prompt), prompts[:8])} == {"MISS"}
            assert {*pool.map(lambda prompt: cache_status(two, one, prompt), prompts[8:])} == {"MISS"}
        assert admin_of(world).delete("/cache/").status_code == 200
        assert not CacheEntry.objects.filter(model=one.model)
        assert {cache_status(one, one, prompt) for prompt in prompts} == {"MISS"}
        assert admin_of(world).delete("/cache/").status_code == 200


@pytest.mark.servers
def test_what_a_killed_process_cached_is_purged_too(start):
    world = caching(start)
    assert cache_status(world, world, "purged") == "MISS"
    world.gateway.kill()
    world.gateway.start()
    assert cache_status(world, world, "purged") == "HIT"
    assert admin_of(world).delete("/cache/").status_code == 200
    assert cache_status(world, world, "purged") == "MISS"


@pytest.mark.servers
def test_a_replica_that_ended_is_not_waited_for(start):
    one, two = caching(start), start("two", **LAZY)
    assert cache_status(two, one, "purged") == "MISS"
    two.gateway.stop()
    admin = admin_of(one)
    begun = timezone.now()
    assert admin.delete("/cache/").status_code == 200
    assert (timezone.now() - begun).total_seconds() < 5
    assert cache_status(one, one, "purged") == "MISS"


@pytest.mark.slow
@pytest.mark.servers
def test_nothing_is_purged_while_a_process_does_not_report(start):
    """Its machine hangs: it is waited for until the others do not count it any more, and what it has is on its disk."""
    one, two = caching(start), start("two", **LAZY)
    assert cache_status(two, one, "purged") == "MISS"
    (worker,) = two.gateway.workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        assert admin_of(one).delete("/cache/").status_code in (200, 503)
    finally:
        os.kill(worker, signal.SIGCONT)
    assert one.soon(lambda: admin_of(one).delete("/cache/"), 200, seconds=20)
    assert cache_status(one, one, "purged") == "MISS"
