"""Files that root's commands create and replace."""

import os
from pathlib import Path

import pytest

from gateway_project.database.sqlite.backups import put_back
from gateway_project.key_file import KeyFile, local_secret

pytestmark = [pytest.mark.embedded, pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")]

OTHER = 65534


def owners(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_uid, path.stat().st_gid) for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    """A folder of another user."""
    folder = tmp_path / "of another user"
    folder.mkdir()
    os.chown(folder, OTHER, OTHER)
    return folder


def test_a_key_file_that_root_changes_stays_its_owners(folder):
    path = local_secret(folder / "encryption_key")
    os.chown(path, OTHER, OTHER)
    keys = KeyFile(path)
    with keys.lock_file():
        keys.prepend("new")
        keys.remove_old_keys()
    assert owners(folder) == {"encryption_key": (OTHER, OTHER), "encryption_key.lock": (OTHER, OTHER)}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("exists", [True, False])
def test_a_database_that_root_restores_stays_its_owners(folder, tmp_path, exists):
    database, backup = folder / "gateway.sqlite3", tmp_path / "backup"
    backup.touch()
    if exists:
        database.touch()
        os.chown(database, OTHER, OTHER)
    put_back(backup, database)
    assert set(owners(folder).values()) == {(OTHER, OTHER)}
    assert {"gateway.sqlite3", "gateway.sqlite3.lock"} <= owners(folder).keys()
