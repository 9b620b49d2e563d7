"""The encryption key is rotated under load: no request fails, and no edit of the same moment is lost."""

import itertools
import threading

import pytest
from django.conf import settings
from django.test import override_settings

from providers.credentials import decrypt, is_sealed_with
from providers.models import Provider
from providers.services import update_provider
from tests.support.load import Load
from tests.support.management import Client, body, new_admin
from tests.support.promises import promise
from tests.support.running import manage
from tests.support.world import sends

pytestmark = pytest.mark.either_store

ROTATED = promise("The encryption key is rotated under load without a failed request", target="0 failed, 0 edits lost")
NEW = "the new key of more than thirty-two characters"


def all_served(load: Load, more: int = 60) -> None:
    """So many requests more were served, and none was refused since the beginning."""
    until = load.served() + more
    load.wait(lambda: load.served() >= until or any(not one.served for one in load.sent), seconds=60)
    assert [one for one in load.sent if not one.served] == []


@pytest.mark.servers  # without Redis two gateways count each for itself
@ROTATED
def test_workers_that_started_before_the_rotation_and_after_it_serve_on(start, tmp_path, figure):
    old = settings.GATEWAY_ENCRYPTION_KEYS[0]
    world = start("before")
    world.allow()
    provider = world.provider()
    row = world.row(provider)
    with Load(world, clients=4) as load:
        all_served(load)
        told = manage(world.gateway.store, tmp_path, "rotate_encryption_key", GATEWAY_ENCRYPTION_KEYS=f"{NEW},{old}")
        assert "already under this key: 0." in told
        row.refresh_from_db()
        assert is_sealed_with(row.credential, NEW)
        all_served(load, more=200)  # several looks at the database later
    figure(f"{len(load.sent)} requests, 0 failed")
    after = start("after", GATEWAY_ENCRYPTION_KEYS=NEW)
    assert after.gateway.process.poll() is None
    with Load(world, clients=2, urls=[after.gateway.url]) as load:
        all_served(load)
    assert {seen.headers["authorization"] for seen in provider.seen} == {"Bearer sk-secret-of-the-provider"}
    manage(world.gateway.store, tmp_path, "rotate_encryption_key", GATEWAY_ENCRYPTION_KEYS=f"{old},{NEW}")


@ROTATED
def test_a_local_instance_rotates_its_own_key_while_it_serves(start, tmp_path):
    world = start("one", GATEWAY_ENCRYPTION_KEYS="")
    directory, store = tmp_path / "one", world.gateway.store
    world.allow()
    provider = world.provider(credential="")
    client = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    path = f"/providers/{world.row(provider).pk}/"
    forget_credentials()  # of other tests, under their key

    def rotate(option):
        return manage(store, directory, "rotate_encryption_key", option, GATEWAY_ENCRYPTION_KEYS="")

    assert client.send("PATCH", path, json=body(apiKey="sk-first-1111")).status_code == 200
    world.until(lambda: sends(world, provider) == "Bearer sk-first-1111")
    try:
        _rotates_while_it_serves(world, provider, client, path, rotate)
    finally:
        forget_credentials()
    assert len((directory / "secrets" / "encryption_key").read_text().split()) == 1
    assert "sk-first" not in world.gateway.log()


def _rotates_while_it_serves(world, provider, client, path, rotate):
    with Load(world, clients=4) as load:
        all_served(load)
        assert rotate("--new-key") == "Credentials re-encrypted: 1; already under this key: 0.\n"
        all_served(load)
        assert rotate("--drop-old-keys").endswith("Old keys dropped: 1.\n")
        all_served(load)
        assert client.send("PATCH", path, json=body(apiKey="sk-second-2222")).status_code == 200
        world.until(lambda: sends(world, provider) == "Bearer sk-second-2222")
        all_served(load)


def forget_credentials():
    """Tests share a database, and this instance has a key of its own."""
    Provider.objects.update(credential="", credential_hint="")


@ROTATED
def test_edits_at_the_same_moment_are_not_overwritten(start, tmp_path):
    old = settings.GATEWAY_ENCRYPTION_KEYS[0]
    world = start()
    rows = [world.row(world.provider(f"m{number}")) for number in range(8)]
    last: dict[int, str] = {}
    stop = threading.Event()

    def edit():
        from django.db import connection

        for number, row in zip(itertools.count(), itertools.cycle(rows)):
            if stop.wait(0.01):  # SQLite's lock is not fair to those who wait
                break
            credential = f"sk-edit-{number:06d}"
            update_provider(row, credential=credential)
            last[row.pk] = credential
        connection.close()

    editor = threading.Thread(target=edit)
    with override_settings(GATEWAY_ENCRYPTION_KEYS=[old, NEW]):
        editor.start()
        try:
            for keys in (f"{NEW},{old}", f"{old},{NEW}", f"{NEW},{old}"):
                manage(world.gateway.store, tmp_path, "rotate_encryption_key", GATEWAY_ENCRYPTION_KEYS=keys)
        finally:
            stop.set()
            editor.join(30)
        for row in rows:
            row.refresh_from_db()
            assert decrypt(row.credential, origin=row.origin, keys=[old, NEW]) == last[row.pk]
    manage(world.gateway.store, tmp_path, "rotate_encryption_key", GATEWAY_ENCRYPTION_KEYS=f"{old},{NEW}")


def test_a_gateway_that_cannot_read_its_keys_any_more_follows_changes(start, tmp_path):
    """As after a command of root that left the file to root."""
    world = start("one", GATEWAY_ENCRYPTION_KEYS="")
    world.allow()
    provider = world.provider(credential="")
    client = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    path = f"/providers/{world.row(provider).pk}/"
    forget_credentials()  # of other tests, under their key
    assert client.send("PATCH", path, json=body(apiKey="sk-first-1111")).status_code == 200
    world.until(lambda: sends(world, provider) == "Bearer sk-first-1111")
    file = tmp_path / "one" / "secrets" / "encryption_key"
    file.unlink()
    file.mkdir()  # root reads whatever a mode forbids, but no folder
    try:
        assert client.send("PATCH", path, json=body(apiKey="sk-second-2222")).status_code == 200
        world.until(lambda: sends(world, provider) == "Bearer sk-second-2222")
        client.send("DELETE", f"/keys/?user={world.user.pk}&name={world.issued.key.name}")
        world.until(lambda: world.ask("revoked").status_code == 401)
    finally:
        forget_credentials()
    assert world.gateway.log().count("The encryption keys cannot be read again") == 1
