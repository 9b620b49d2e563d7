"""PostgreSQL goes away and comes back: requests with known keys are still served, and no entry is lost."""

import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest
import requests
from django.db import connection, transaction

from keys.models import ApiKey
from tests.support.load import Load, check_books, wait_until
from tests.support.management import Client, new_admin, refused
from tests.support.pace import patience

pytestmark = pytest.mark.servers


@pytest.fixture
def world(start, database_proxy):
    """A gateway that reaches its database through the proxy."""
    return start(DATABASE_URL=database_proxy.url)


def status(world, path: str, timeout: float = 20) -> int:
    return requests.get(f"{world.gateway.url}{path}", timeout=timeout).status_code


def timed_status(world, path: str) -> tuple[int, float]:
    begun = time.monotonic()
    return status(world, path), time.monotonic() - begun


@pytest.mark.parametrize("fault", ["hang", pytest.param("refuse", marks=pytest.mark.slow)])
def test_known_keys_are_served_while_the_database_is_away(world, database_proxy, fault):
    world.allow()
    provider = world.provider()
    assert world.ask("before").status_code == 200
    stranger = unknown_key_of_nobody(world)
    with Load(world, clients=4, pause=0.02) as load:
        load.wait(lambda: load.served() > 10)
        getattr(database_proxy, fault)()
        wait_until(lambda: status(world, "/readyz") == 503, 20, "/readyz 503")
        before = load.served()
        load.wait(lambda: load.served() > before + 50)
        health, seconds = timed_status(world, "/healthz")
        assert (health, seconds < patience(1)) == (200, True)
        begun = time.monotonic()
        turned_away = world.ask("unknown", key=stranger)
        assert turned_away.status_code == 503, turned_away.text
        assert turned_away.json()["exception"] == "ServiceUnavailable"
        assert int(turned_away.headers["Retry-After"]) > 0
        assert time.monotonic() - begun < 10
        database_proxy.heal()
        wait_until(lambda: status(world, "/readyz") == 200, 30, "/readyz 200")
        before = load.served()
        load.wait(lambda: load.served() > before + 10)
    assert [one for one in load.sent if not one.served] == []
    assert set(check_books(load.sent, provider).values()) == {"completed"}
    assert world.ask("unknown", key=stranger).status_code == 401
    assert world.entry(turned_away).status == 503


def test_one_frozen_connection_keeps_no_revoked_key_alive(start, database_proxy):
    world = start(DATABASE_URL=database_proxy.url, GATEWAY_DATABASE_TIMEOUT="300")
    world.allow()
    world.provider()
    key = world.new_key()
    assert world.ask("before", key=key.text).status_code == 200
    database_proxy.freeze(b"WITH seen AS")
    assert database_proxy.frozen.wait(patience(2))
    ApiKey.objects.filter(pk=key.key.pk).update(is_deleted=True)
    wait_until(lambda: world.ask("after", key=key.text).status_code == 401, 5, "the key's end")
    assert status(world, "/readyz") == 200


def unknown_key_of_nobody(world) -> str:
    """A key of the right form that the gateway cannot have learned of."""
    world.user  # noqa: B018 - it is there before the transaction that makes and deletes the key
    with transaction.atomic():
        issued = world.new_key()
        issued.key.delete()
    return issued.text


def test_a_database_that_has_frozen_is_given_up(start, database_proxy):
    """It accepts connections and never says a word: its kernel still answers ours."""
    world = start(DATABASE_URL=database_proxy.url, GATEWAY_DATABASE_TIMEOUT="3")
    admin = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    assert admin.get("/roles/").status_code == 200
    database_proxy.hang()
    for _ in range(2):
        begun = time.monotonic()
        refused(admin.get("/roles/"), 503, "ServiceUnavailable", "database")
        assert time.monotonic() - begun < 20  # without the limit it waits for as long as one likes
    database_proxy.heal()
    wait_until(lambda: admin.get("/roles/").status_code == 200, 30, "the database is used again")
    wait_until(lambda: status(world, "/readyz") == 200, 30, "/readyz 200")


@pytest.mark.slow
def test_the_gateway_starts_without_its_database(start, database_proxy):
    database_proxy.refuse()
    world = start(DATABASE_URL=database_proxy.url)
    world.allow()
    provider = world.provider()
    assert status(world, "/healthz") == 200
    assert status(world, "/readyz") == 503
    early = world.ask("early")
    assert (early.status_code, early.json()["exception"]) == (503, "ServiceUnavailable")
    assert int(early.headers["Retry-After"]) > 0
    assert f"The gateway waits for its database at {world.gateway.url}" in world.gateway.log()
    assert "Until the database answers, every key is refused" in world.gateway.log()
    assert "every key is refused until it answers" in world.gateway.log()
    assert "requests with known keys are still served" not in world.gateway.log()
    database_proxy.heal()
    wait_until(lambda: status(world, "/readyz") == 200, 15, "/readyz 200")
    assert world.ask("late").status_code == 200
    database_proxy.refuse()
    wait_until(
        lambda: "requests with known keys are still served" in world.gateway.log(),
        15,
        "the message that keys are known",
    )
    with Load(world, clients=4) as load:
        load.wait(lambda: load.served() > 20)
    database_proxy.heal()
    assert set(check_books(load.sent, provider).values()) == {"completed"}
    assert world.entry(early, seconds=15).status == 503


def test_management_that_finds_no_free_connection_is_told_so_and_work_goes_on(start):
    world = start(GATEWAY_DATABASE_POOL_SIZE="2")
    world.allow()
    world.provider()
    admin = Client(world.gateway.url).as_user(new_admin())
    assert world.ask("before").status_code == 200
    with ThreadPoolExecutor(8) as pool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE rules_rule IN ACCESS EXCLUSIVE MODE")
            waiting = [pool.submit(admin.get, "/rules/") for _ in range(8)]
            turned_away = next(as_completed(waiting)).result()
            assert world.ask("meanwhile").status_code == 200
        assert {one.result().status_code for one in waiting} == {200, 503}
    assert "all connections to it are in use" in turned_away.json()["message"]
    assert int(turned_away.headers["Retry-After"]) > 0
    assert admin.get("/rules/").status_code == 200
    admin.session.close()  # eight open connections are as many files as a gateway may keep
    assert world.entry(world.ask("after")).outcome == "completed"


@pytest.mark.slow
def test_it_is_back_soon_after_a_long_absence(world, database_proxy):
    database_proxy.refuse()
    wait_until(lambda: status(world, "/readyz") == 503, 20, "/readyz 503")
    time.sleep(40)
    database_proxy.heal()
    wait_until(lambda: status(world, "/readyz") == 200, 8, "/readyz 200")


@pytest.mark.slow
def test_a_restart_while_the_database_is_away_keeps_the_entries(start, database_proxy):
    world = start(DATABASE_URL=database_proxy.url)
    world.allow()
    provider = world.provider()
    with Load(world, clients=4, pause=0.02) as load:
        load.wait(lambda: load.served() > 10)
        database_proxy.refuse()
        before = load.served()
        load.wait(lambda: load.served() > before + 20)
    assert world.gateway.stop(30) == 0
    database_proxy.heal()
    world.gateway.start()
    assert set(check_books(load.sent, provider).values()) == {"completed"}
