"""Copies of a database file: made while gateways write to it, and put back while none runs."""

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from urllib.parse import quote

from gateway_project.database.file_owner import give_to_owner_of
from gateway_project.database.sqlite.usage_lock import no_gateway

Migrations = Collection[tuple[str, str]]  # app and name

# In a database of the gateway each of these apps has been migrated.
OWN_APPS = {"accounts", "gateway_project", "keys", "licensing", "providers", "rules", "telemetry"}
LOCK_SECONDS = 20
FILES = ("", "-wal", "-shm", "-journal")  # the endings of one database's files


class NotABackup(Exception):
    """The file is no database of this gateway, or not one that this version can read; the text says why."""


def back_up(database: Path, target: Path) -> None:
    """Copy the database as it is at one moment into a new file that only its user can read.

    Raises FileExistsError, OSError and sqlite3.Error; a copy that was begun is deleted then.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        _copy(database, target)
    except BaseException:
        target.unlink()
        raise


def check_backup(backup: Path, migrations: Migrations) -> None:
    """Raise NotABackup unless the file is a whole database of this gateway; `migrations` are this version's."""
    try:
        with closing(_open_to_read(backup)) as source:
            applied = set(source.execute("SELECT app, name FROM django_migrations"))
            damage = source.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise NotABackup(f"it is not a database of the gateway ({error})") from None
    if missing := OWN_APPS - {app for app, _ in applied}:
        raise NotABackup(f"it is not a database of the gateway: it lacks {', '.join(sorted(missing))}")
    if newer := sorted(name for app, name in applied if app in OWN_APPS and (app, name) not in migrations):
        raise NotABackup(f"a newer version of the gateway made it ({newer[-1]}): install that version first")
    if damage != "ok":
        raise NotABackup(f"it is damaged: {damage}")


def put_back(backup: Path, database: Path) -> Path | None:
    """Put a copy of the backup in the place of the database; the former one is kept, and its path returned.

    Raises InUse if a gateway runs on it, OSError and sqlite3.Error.
    """
    draft = database.with_name(f"{database.name}.restoring")
    with no_gateway(database), _removed_at_the_end(draft):
        draft.unlink(missing_ok=True)
        back_up(backup, draft)
        existed = database.exists()
        give_to_owner_of(database if existed else database.parent, draft)
        former = _set_aside(database) if existed else None
        draft.replace(database)
    return former


def _set_aside(database: Path) -> Path:
    """Rename the database to a name that no file has, and return it: former databases are never overwritten."""
    if _is_readable(database):
        _fold_into_one_file(database)
    former = _free_name(database)
    for ending in reversed(FILES):
        with suppress(FileNotFoundError):
            Path(f"{database}{ending}").replace(f"{former}{ending}")
    return former


def _fold_into_one_file(database: Path) -> None:
    """Apply what is in the write-ahead log: a crash between two renames cannot part it from the database then."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=LOCK_SECONDS)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _is_readable(database: Path) -> bool:
    """Whether SQLite can read it. When it opens one to write that it cannot read, it deletes the files beside it."""
    if database.stat().st_size:
        with suppress(sqlite3.Error), closing(_open_to_read(database)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")
            return True
    return False


def _free_name(database: Path) -> Path:
    names = chain(["before-restore"], (f"before-restore-{number}" for number in count(2)))
    paths = (database.with_name(f"{database.name}.{name}") for name in names)
    return next(path for path in paths if not any(Path(f"{path}{ending}").exists() for ending in FILES))


@contextmanager
def _removed_at_the_end(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _copy(database: Path, target: Path) -> None:
    with closing(_open_to_read(database)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)  # all pages in one step: in several, it begins anew whenever somebody writes
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, whatever the database has beside it
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _open_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(bytes(path))}?mode=ro", uri=True, timeout=LOCK_SECONDS)
