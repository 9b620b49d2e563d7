"""Removal by SCIM ends everything at once, in a gateway that runs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from accounts.models import Session
from tests.accounts.scim.conftest import TOKEN, Directory, error
from tests.support.management import Client, token_of
from tests.support.pace import patience
from tests.support.running import RunningGateway, Store
from tests.support.world import World

pytestmark = [pytest.mark.long, pytest.mark.either_store]


@pytest.fixture(scope="module")
def running(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with RunningGateway(store, tmp_path_factory.mktemp("scim"), GATEWAY_SCIM_TOKEN=TOKEN) as gateway:
        yield gateway


@pytest.fixture
def world(running: RunningGateway, orm: None) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(running, resources)


@pytest.fixture
def synced(world: World) -> Directory:
    return Directory(world.gateway.url)


def seconds_until_refused(world: World) -> float:
    """How long the world's key still works."""
    began = time.monotonic()
    while world.ask("hello").status_code != 401:
        assert time.monotonic() - began < patience(10)
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.parametrize("how", ["deleted", "deactivated"])
def test_keys_and_sessions_end_within_a_second(world, synced, how):
    world.allow()
    world.provider()
    assert world.ask("hello").status_code == 200
    login = Client(world.gateway.url, token_of(world.user))
    assert login.get("/users/?currentUser=true").status_code == 200
    path = f"/Users/{world.user.pk}"
    if how == "deleted":
        assert synced.send("DELETE", path).status_code == 204
    else:
        synced.patch(path, {"op": "Replace", "path": "active", "value": "False"})
    assert login.get("/users/?currentUser=true").status_code == 401
    assert seconds_until_refused(world) < patience(1)
    assert not Session.objects.live().filter(user=world.user).exists()


def test_who_leaves_a_group_loses_its_rules(world, synced):
    group = world.new_group(world.user)
    world.allow(group=group)
    world.provider()
    assert world.ask("hello").status_code == 200
    path = f"/Groups/{group.pk}?excludedAttributes=members"
    synced.patch(path, {"op": "Remove", "path": "members", "value": [{"value": str(world.user.pk)}]})
    began = time.monotonic()
    while world.ask("hello").status_code != 403:
        assert time.monotonic() - began < patience(1)
        time.sleep(0.05)


def test_a_new_person_can_work_with_a_key_of_their_own(world, synced):
    name = world.name("person")
    user_id = synced.new_user(name)["id"]
    assert synced.names("/Users", f'userName eq "{name.upper()}"') == [name]
    assert error(Directory(world.gateway.url, world.key).send("GET", f"/Users/{user_id}"), 401)
    chunked = synced.session.post(
        f"{synced.base}/Users",
        data=iter(
            [b'{"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], ', b'"userName": "%s-2"}' % name.encode()]
        ),
        headers={"Content-Type": "application/scim+json"},
        timeout=30,
    )
    assert chunked.status_code == 201, chunked.text
