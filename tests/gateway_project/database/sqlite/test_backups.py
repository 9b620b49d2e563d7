"""manage.py backup and restore, against real files and a gateway that serves from them."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from gateway_project.database.sqlite.backups import back_up, put_back
from gateway_project.database.sqlite.usage_lock import InUse, claim_use, no_gateway
from tests.support.pace import patience
from tests.support.running import ROOT, RunningGateway, Store
from tests.support.template import copy_template_file
from tests.support.thoroughness import first_of

pytestmark = [pytest.mark.embedded, pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite alone")]

NAMES = "SELECT name FROM accounts_user ORDER BY name"


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    """A migrated database."""
    database = tmp_path_factory.mktemp("migrated") / "gateway.sqlite3"
    copy_template_file(database)
    return database


@pytest.fixture
def store(migrated, tmp_path):
    """A store of its own."""
    back_up(migrated, tmp_path / "gateway.sqlite3")
    return Store(f"sqlite:///{tmp_path}/gateway.sqlite3")


def command(store, *arguments):
    """A command as it ends: its status, and what it says."""
    variables = os.environ | store.environ() | {"GATEWAY_VAR_DIR": str(Path(store.name).parent)}
    process = subprocess.run(
        [sys.executable, "manage.py", *map(str, arguments)],
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip
    assert "Traceback" not in process.stderr
    return process.returncode, process.stdout + process.stderr


def groups(path):
    with closing(sqlite3.connect(path)) as database:
        return [name for (name,) in database.execute("SELECT name FROM accounts_group ORDER BY name")]


def add_group(path, name):
    with closing(sqlite3.connect(path, timeout=20)) as database, database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(accounts_group)")]
        values = {name: "" for name in columns if name != "id"} | {"name": name}
        values = {column: value for column, value in values.items() if column in columns}
        marks = ", ".join("?" * len(values))
        database.execute(f"INSERT INTO accounts_group ({', '.join(values)}) VALUES ({marks})", list(values.values()))


def test_what_is_restored_is_what_was_backed_up(store, tmp_path):
    add_group(store.name, "before")
    assert command(store, "backup", tmp_path / "copy")[0] == 0
    add_group(store.name, "after")
    status, words = command(store, "restore", tmp_path / "copy")
    assert status == 0, words
    assert groups(store.name) == ["before"]
    former = f"{store.name}.before-restore"
    assert former in words
    assert groups(former) == ["after", "before"]
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_mode & 0o077] == []
    with closing(sqlite3.connect(store.name)) as database:
        messages = [row[0] for row in database.execute("SELECT message FROM telemetry_logentry")]
    assert [message.partition(" ")[2] for message in messages] == ["restored the database, by manage.py."]


def test_a_second_restore_keeps_the_database_that_served(store, tmp_path):
    for day in ("monday", "tuesday"):
        back_up(Path(store.name), tmp_path / day)
    add_group(store.name, "since the backups")
    assert command(store, "restore", tmp_path / "monday")[0] == 0  # the wrong one
    status, words = command(store, "restore", tmp_path / "tuesday")
    assert (status, f"{store.name}.before-restore-2." in words) == (0, True)
    assert groups(f"{store.name}.before-restore") == ["since the backups"]
    assert groups(f"{store.name}.before-restore-2") == []


def test_a_former_database_holds_what_was_in_its_write_ahead_log(store, tmp_path):
    """As a killed gateway leaves it: a database with its last changes in the log beside it."""
    back_up(Path(store.name), tmp_path / "copy")
    (tmp_path / "killed").mkdir()
    with closing(sqlite3.connect(store.name)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("SELECT count(*) FROM accounts_group").fetchone()  # open until then, it keeps the log
        add_group(store.name, "in the log")
        for ending in ("", "-wal"):
            shutil.copy(f"{store.name}{ending}", f"{tmp_path}/killed/gateway.sqlite3{ending}")
    killed = tmp_path / "killed/gateway.sqlite3"
    former = put_back(tmp_path / "copy", killed)
    assert sorted(path.name for path in killed.parent.iterdir() if path.suffix != ".lock") == [killed.name, former.name]
    assert (groups(former), groups(killed)) == (["in the log"], [])


@pytest.mark.parametrize("content", ["", "no database"])
def test_a_damaged_database_is_kept_with_all_its_files(store, tmp_path, content):
    """Also those of a restore that was killed between two of them."""
    back_up(Path(store.name), tmp_path / "copy")
    (tmp_path / "spoilt").mkdir()
    spoilt = tmp_path / "spoilt/gateway.sqlite3"
    contents = {"": content, "-wal": "its log", "-journal": "its journal", ".before-restore-wal": "a former log"}
    for ending, text in contents.items():
        Path(f"{spoilt}{ending}").write_text(text)
    former = put_back(tmp_path / "copy", spoilt)
    assert former.name == "gateway.sqlite3.before-restore-2"
    files = {path.name: path.read_text() for path in spoilt.parent.glob("*before-restore*")}
    assert files == {
        former.name: content,
        f"{former.name}-wal": "its log",
        f"{former.name}-journal": "its journal",
        "gateway.sqlite3.before-restore-wal": "a former log",
    }
    assert groups(spoilt) == []


def test_it_is_restored_where_there_was_no_database(store, tmp_path):
    back_up(Path(store.name), tmp_path / "copy")
    Path(store.name).unlink()
    status, words = command(store, "restore", tmp_path / "copy")
    assert (status, "before-restore" in words) == (0, False)


@pytest.mark.long
def test_a_copy_made_while_others_write_is_of_one_moment(migrated, tmp_path):
    """A writer always changes two rows at once: no copy has one of them without the other."""
    path, stop, copies = tmp_path / "busy.sqlite3", threading.Event(), []
    back_up(migrated, path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE pair (number, filler)")
        database.executemany("INSERT INTO pair VALUES (0, ?)", [["x" * 3000]] * 2000)

    def write():
        with closing(sqlite3.connect(path, timeout=20)) as database:
            while not stop.is_set():
                with database:
                    database.execute("UPDATE pair SET number = number + 1 WHERE rowid IN (1, 2000)")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(8):
            back_up(path, tmp_path / f"copy-{number}")
            with closing(sqlite3.connect(tmp_path / f"copy-{number}")) as copy:
                copies.append(copy.execute("SELECT number FROM pair WHERE rowid IN (1, 2000)").fetchall())
                assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        stop.set()
        writer.join(20)
    assert [one for one, other in copies if one != other] == []
    assert copies[-1] > copies[0]  # it wrote meanwhile


def test_names_of_files_are_bytes(store, tmp_path):
    copy = tmp_path / os.fsdecode(b"50% ?#\xff")
    back_up(Path(store.name), copy)
    put_back(copy, Path(store.name))
    assert groups(store.name) == []


def test_a_backup_changes_no_file_that_exists(store, tmp_path):
    target = tmp_path / "copy"
    target.write_text("precious")
    status, words = command(store, "backup", target)
    assert (status, target.read_text()) == (1, "precious")
    assert "exists and was not changed" in words
    status, words = command(store, "backup", tmp_path / "nowhere/copy")
    assert status == 1
    assert "No such file or directory" in words


def foreign(path):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE django_migrations (app, name)")
        database.execute("INSERT INTO django_migrations VALUES ('accounts', '0001_initial')")


def newer(path):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('keys', '9999_later', '2030-01-01')"
        )


def damaged(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + os.urandom(len(whole) // 2 - 8192) + whole[len(whole) // 2 :])


@pytest.mark.parametrize(
    ("spoil", "words"),
    first_of(
        (lambda path: path.write_text("a letter"), "no database of the gateway|not a database of the gateway"),
        (lambda path: (path.unlink(), foreign(path)), "lacks gateway_project, keys"),
        (newer, "newer version"),
        (damaged, "cannot be restored"),
        (lambda path: path.write_bytes(b""), "not a database of the gateway"),
        (lambda path: path.unlink(), "not a database of the gateway"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8192]), "cannot be restored"),
        values=2,
    ),
    ids=["text", "foreign", "newer", "damaged", "empty", "missing", "truncated"],
)
def test_a_file_that_is_no_backup_of_ours_is_refused(store, tmp_path, spoil, words):
    copy = tmp_path / "copy"
    back_up(Path(store.name), copy)
    before = Path(store.name).read_bytes()
    spoil(copy)
    status, result = command(store, "restore", copy)
    assert status == 1, result
    assert re.search(words, result)
    assert Path(store.name).read_bytes() == before


def test_nothing_is_restored_under_a_gateway_that_runs(store, tmp_path):
    with RunningGateway(store, tmp_path) as running:
        assert command(store, "backup", tmp_path / "copy")[0] == 0
        status, words = command(store, "restore", tmp_path / "copy")
        assert (status, "A gateway uses" in words) == (1, True)
        assert running.stop() == 0
    assert command(store, "restore", tmp_path / "copy")[0] == 0


def test_no_gateway_starts_while_one_is_restored(store, tmp_path):
    with no_gateway(Path(store.name)), pytest.raises(AssertionError, match="is being restored"):
        RunningGateway(store, tmp_path).start()


def test_gateways_share_the_lock(tmp_path):
    database = tmp_path / "gateway.sqlite3"
    claim_use(database)
    claim_use(database)
    with pytest.raises(InUse), no_gateway(database):
        pass


@pytest.mark.long
def test_a_command_for_sqlite_names_the_one_for_postgresql(tmp_path):
    store = Store("postgresql://127.0.0.1:1/nowhere")
    for name, program in (("backup", "pg_dump"), ("restore", "pg_restore")):
        variables = os.environ | store.environ() | {"GATEWAY_VAR_DIR": str(tmp_path)}
        process = subprocess.run(
            [sys.executable, "manage.py", name, "x"],
            cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=patience(20),
        )  # fmt: skip
        assert (process.returncode, program in process.stderr) == (1, True)
