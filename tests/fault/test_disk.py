"""The journal's disk is full: nothing is asked that could not be logged, and it heals by itself."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from accounts.models import Group
from tests.support.load import Load, check_books, wait_until
from tests.support.servers import fill, small_disk
from tests.support.world import World

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    with small_disk(directory, "2m"):
        yield directory


@pytest.fixture
def world(start, disk) -> World:
    """Small segments: the disk takes a few of them."""
    return start(GATEWAY_JOURNAL_DIR=str(disk / "journal"), GATEWAY_JOURNAL_SEGMENT_BYTES="262144")


@pytest.mark.full_disk
def test_a_full_disk_is_a_503_without_a_provider_call(world, disk):
    world.allow()
    provider = world.provider()
    with Load(world, clients=4) as load:
        load.wait(lambda: load.served() > 20)
        ballast = fill(disk)
        load.wait(lambda: [one.status for one in list(load.sent)[-20:]] == [503] * 20, 60)
        refused = world.ask("full")
        assert refused.status_code == 503
        assert refused.json()["exception"] == "ServiceUnavailable"
        assert int(refused.headers["Retry-After"]) > 0
        ballast.unlink()
        before = load.served()
        load.wait(lambda: load.served() > before + 20, 20)
    assert {one.status for one in load.sent} == {200, 503}
    assert not any(b'"full"' in seen.body for seen in provider.seen)
    seen = {one.json["messages"][0]["content"] for one in provider.seen}
    assert seen == {one.request_id for one in load.sent if one.served}
    served = [one for one in load.sent if one.served]
    assert set(check_books(served, provider).values()) == {"completed"}
    assert "Traceback" not in world.gateway.log()
    assert world.gateway.log().count("No space left on device") == 1


def test_who_is_in_hundreds_of_groups_is_logged_on_a_full_disk_too(start, disk):
    world = start(
        GATEWAY_JOURNAL_DIR=str(disk / "journal"),
        GATEWAY_JOURNAL_SEGMENT_BYTES="262144",
        GATEWAY_FIRST_BYTE_TIMEOUT="20",
    )
    groups = Group.objects.bulk_create([Group(name=f"group {number}") for number in range(900)])
    world.user.groups.add(*groups)
    world.allow()
    provider = world.provider()
    provider.default.delay = 2
    assert world.key
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(world.ask, f"{number} {'y' * 60_000}") for number in range(6)]
        provider.wait_for(6)
        ballast = fill(disk)
        answers = [one.result() for one in asked]
    ballast.unlink()
    assert {world.entry(answer).outcome for answer in answers} == {"completed"}
    assert not (disk / "journal" / "refused.jsonl").exists()


@pytest.mark.full_disk
@pytest.mark.servers
@pytest.mark.slow
def test_the_disk_fills_while_the_database_is_away(start, disk, database_proxy):
    world = start(
        GATEWAY_JOURNAL_DIR=str(disk / "journal"),
        GATEWAY_JOURNAL_SEGMENT_BYTES="262144",
        DATABASE_URL=database_proxy.url,
    )
    world.allow()
    provider = world.provider()
    with Load(world, clients=4) as load:
        load.wait(lambda: load.served() > 20)
        database_proxy.refuse()
        load.wait(lambda: [one.status for one in list(load.sent)[-20:]] == [503] * 20, 60)
        database_proxy.heal()
        wait_until(lambda: load.sent[-1].served, 30, "service after the database came back")
        before = load.served()
        load.wait(lambda: load.served() > before + 20, 20)
    served = [one for one in load.sent if one.served]
    assert {one.json["messages"][0]["content"] for one in provider.seen} == {one.request_id for one in served}
    assert set(check_books(served, provider).values()) == {"completed"}
