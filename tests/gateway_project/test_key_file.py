"""Keys in a file that gets new ones while processes run."""

import stat

import pytest

from gateway_project.key_file import KeyFile, local_secret, new_key


@pytest.fixture
def path(tmp_path):
    return local_secret(tmp_path / "var" / "secrets" / "encryption_key")


def test_a_key_is_made_once_and_is_nobody_elses_to_read(path):
    (key,) = KeyFile(path)
    assert len(key) >= 48
    assert list(KeyFile(local_secret(path))) == [key]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700  # where the database is


def test_a_new_key_encrypts_from_now_on_in_every_process(path):
    running, other = KeyFile(path), KeyFile(path)
    (old,) = running
    other.prepend("new")
    assert (running[0], list(running), len(running)) == ("new", ["new", old], 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_process_knows_the_dropped_keys_until_it_ends(path):
    running = KeyFile(path)
    (old,) = running
    KeyFile(path).prepend("new")
    assert KeyFile(path).remove_old_keys() == 1
    assert list(running) == ["new", old]
    assert list(KeyFile(path)) == ["new"]


def test_a_file_that_is_taken_away_is_not_missed_by_those_who_read_it(path):
    running = KeyFile(path)
    (old,) = running
    path.unlink()
    assert list(running) == [old]
    with pytest.raises(FileNotFoundError):
        KeyFile(path)[0]


def make_unreadable(path):
    """Root reads whatever a mode forbids, but no folder."""
    path.unlink()
    path.mkdir()


def test_keys_stay_while_their_file_cannot_be_read(path, caplog):
    running = KeyFile(path)
    (old,) = running
    make_unreadable(path)
    assert list(running) == [old]
    assert list(running) == [old]
    assert [record.getMessage() for record in caplog.records] == [
        "The encryption keys cannot be read again, and stay as they were read before: "
        f"[Errno 21] Is a directory: '{path}'"
    ]
    path.rmdir()
    path.write_text("new")
    assert list(running) == ["new", old]
    path.write_bytes(b"\xff")
    assert list(running) == ["new", old]
    assert len(caplog.records) == 2
    with pytest.raises(UnicodeDecodeError):
        KeyFile(path)[0]


def test_no_key_is_shown_by_accident(path):
    keys = KeyFile(path)
    assert keys[0] not in repr(keys)
    assert new_key() != new_key()
