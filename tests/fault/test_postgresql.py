"""A real PostgreSQL that is killed, frozen, out of connections or out of disk: work goes on, and no entry is lost."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import psycopg
import pytest
import requests

from tests.fault.conftest import UNLIMITED
from tests.fault.test_kill import assert_failures_were_kills, books
from tests.support.load import Load, check_books, wait_until
from tests.support.management import Client, new_admin
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.running import RunningGateway, drop_connections, fresh_store
from tests.support.servers import OwnPostgresql, fill, own_postgresql
from tests.support.world import World, ready

pytestmark = [pytest.mark.servers, pytest.mark.slow]
CONNECTIONS = 24
PROMISE = "While PostgreSQL {}, known keys are served, and every entry arrives when it is back"
TARGET = "0 failed requests, 0 lost entries"


def kept(fault: str) -> pytest.MarkDecorator:
    return promise(PROMISE.format(fault), target=TARGET)


class Stand(NamedTuple):
    gateway: RunningGateway
    server: OwnPostgresql


@pytest.fixture(scope="module")
def stand(tmp_path_factory, django_db_blocker) -> Iterator[Stand]:
    """A gateway on a PostgreSQL of its own, which has a disk of its own where this machine mounts one."""
    with ExitStack() as resources:
        disk = "160m" if os.geteuid() == 0 else ""
        options = f"--max_connections={CONNECTIONS}", "--superuser_reserved_connections=0", "--shared_buffers=16MB"
        server = resources.enter_context(own_postgresql(*options, disk=disk))
        store = resources.enter_context(fresh_store(tmp_path_factory.mktemp("store"), server.url))
        environ = UNLIMITED | {"GATEWAY_DATABASE_TIMEOUT": "3"}
        yield Stand(
            resources.enter_context(RunningGateway(store, tmp_path_factory.mktemp("postgresql"), **environ)), server
        )


@pytest.fixture
def orm(stand: Stand, django_db_blocker) -> Iterator[None]:
    with django_db_blocker.unblock(), stand.gateway.store.used_by_orm():
        yield


@pytest.fixture
def world(stand: Stand, orm: None) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(stand.gateway, resources)
        drop_connections()


def management(world: World) -> Client:
    return Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))


def serve_on(load: Load, more: int = 50) -> None:
    before = load.served()
    load.wait(lambda: load.served() > before + more)


def check_refusal(client: Client, path: str = "/roles/") -> None:
    """Management says that the store is away, and when to come again."""
    answer = client.get(path)
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) > 0


def check_all_served(load: Load, provider, figure) -> None:
    assert [one for one in load.sent if not one.served] == []
    drop_connections()
    assert set(check_books(load.sent, provider).values()) == {"completed"}
    figure(f"{len(load.sent)} requests, 0 failed, 0 entries lost")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(OwnPostgresql.freeze, id="frozen", marks=kept("is frozen")),
        pytest.param(OwnPostgresql.kill, id="killed", marks=kept("is stopped (kill -9)")),
    ],
)
def test_it_is_frozen_or_killed_under_load(world, stand, fault, figure):
    world.allow()
    provider = world.provider()
    client = management(world)
    assert world.ask("before").status_code == 200
    with Load(world, clients=4, pause=0.02) as load:
        serve_on(load, 10)
        fault(stand.server)
        wait_until(lambda: not ready(world), 20, "/readyz 503")
        assert requests.get(f"{world.gateway.url}/healthz", timeout=patience(1)).status_code == 200
        serve_on(load)
        check_refusal(client)
        stand.server.heal()
        wait_until(lambda: ready(world), 30, "/readyz 200")
        serve_on(load, 10)
    check_all_served(load, provider, figure)


@promise("Ten crashes of PostgreSQL under load lose no entry", target="0 failed requests, 0 lost entries")
def test_ten_crashes(world, stand, figure):
    world.allow()
    provider = world.provider()
    assert world.ask("before").status_code == 200
    with Load(world, clients=4, pause=0.01) as load:
        for _ in range(10):
            serve_on(load, 30)
            stand.server.kill()
            serve_on(load, 10)
            stand.server.heal()
            wait_until(lambda: ready(world), 30, "/readyz 200")
    check_all_served(load, provider, figure)


@promise(
    "kill -9 of the gateway and of PostgreSQL under load leaves one true entry for each request",
    target="0 lost, 0 twice",
)
@pytest.mark.killed("in the middle of requests")
@pytest.mark.parametrize("first", ["gateway", "PostgreSQL"])
def test_it_is_killed_together_with_the_gateway(world, stand, first, figure):
    """The one that dies last works on for a moment: PostgreSQL without callers, or the gateway without a log."""
    world.allow()
    provider = world.provider()
    provider.default.delay = 0.1
    kills = [stand.gateway.kill, stand.server.kill]
    assert world.ask("before").status_code == 200
    with Load(world, clients=4) as whole, Load(world, clients=4, stream=True) as streams:
        for _ in range(3):
            serve_on(whole, 10)
            serve_on(streams, 10)
            for kill in kills if first == "gateway" else kills[::-1]:
                kill()
                time.sleep(0.3)
            stand.server.start()
            stand.gateway.start()
        serve_on(whole, 10)
        serve_on(streams, 10)
    drop_connections()
    sent = whole.sent + streams.sent
    result = check_books(sent, provider)
    assert "aborted" in result.values()
    assert_failures_were_kills(sent, result)
    figure(books(result))


@kept("is out of connections")
def test_it_is_out_of_connections(world, stand, figure):
    """Others take all of them, and those of the gateway are cut."""
    world.allow()
    provider = world.provider()
    client = management(world)
    assert world.ask("before").status_code == 200
    with Load(world, clients=4, pause=0.02) as load:
        serve_on(load, 10)
        with ExitStack() as taken:
            greedy = [taken.enter_context(psycopg.connect(stand.server.url, autocommit=True))]
            while is_taken := take_a_connection(taken, stand):
                greedy.append(is_taken)
                cut_the_others(greedy[0], [one.info.backend_pid for one in greedy])
            wait_until(lambda: not ready(world), 20, "/readyz 503")
            serve_on(load)
            check_refusal(client)
        wait_until(lambda: ready(world), 30, "/readyz 200")
        serve_on(load, 10)
    check_all_served(load, provider, figure)


def take_a_connection(taken: ExitStack, stand: Stand) -> psycopg.Connection | None:
    try:
        return taken.enter_context(psycopg.connect(stand.server.url, autocommit=True))
    except psycopg.OperationalError as error:
        if "too many clients" not in str(error) and "remaining connection slots" not in str(error):
            raise
        return None


def cut_the_others(connection: psycopg.Connection, ours: list[int]) -> None:
    others = "backend_type = 'client backend' AND NOT pid = ANY(%s)"
    connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}", [ours])


@pytest.mark.timeout(300)
@kept("is out of disk")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_its_disk_is_full(world, stand, figure):
    world.allow()
    provider = world.provider()
    client = management(world)
    assert world.ask("before").status_code == 200
    with Load(world, clients=4, pause=0.01) as load:
        serve_on(load, 10)
        ballast = fill(stand.server.directory)
        try:
            # Pages that it has may take some rows still.
            wait_until(lambda: "No space left on device" in postgresql_log(stand), 60, "a full disk")
            serve_on(load)
            answer = client.post("/groups/", name=world.name("group"))
            assert answer.status_code in (201, 503), answer.text
        finally:
            ballast.unlink()
            stand.server.heal()
        wait_until(lambda: ready(world), 30, "/readyz 200")
        serve_on(load, 10)
    check_all_served(load, provider, figure)


def postgresql_log(stand: Stand) -> str:
    return (stand.server.directory / "postgresql.log").read_text(errors="replace")
