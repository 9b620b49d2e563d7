"""One migrated, empty database for all processes of a test run. Their own ones are copies: to migrate takes seconds."""

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings

from tests.support.pace import patience

ROOT = Path(__file__).resolve().parents[2]
RUN = "TEST_RUN"  # the variable that the processes of a run share


def begin_run() -> bool:
    """Whether this process is the first of its run: the one that removes the template at the end."""
    is_first = RUN not in os.environ
    os.environ.setdefault(RUN, secrets.token_hex(5))
    return is_first


def end_run() -> None:
    folder = _folder()
    if (folder / "postgresql").exists():
        _drop_database(os.environ["DATABASE_URL"], _database_name())
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ[RUN]


def copy_template_file(target: Path) -> None:
    """A migrated database of SQLite at this path."""
    shutil.copyfile(_template("sqlite", _migrate_file), target)


def template_database() -> str:
    """The name of a migrated database on the server of DATABASE_URL."""
    _template("postgresql", _migrate_database)
    return _database_name()


@contextmanager
def new_database(url: str, template: str = "template0") -> Iterator[str]:
    """The URL of a database on this PostgreSQL, a copy of the template; gone afterwards."""
    name = f"gateway_test_{secrets.token_hex(5)}"
    address = _create_database(url, name, template)
    try:
        yield address
    finally:
        _drop_database(url, name)


def _template(kind: str, migrate: Callable[[Path], None]) -> Path:
    """What one process has migrated while the others wait."""
    folder = _folder()
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / kind).exists():
            migrate(folder / f"{kind}.new")
            (folder / f"{kind}.new").rename(folder / kind)
    return folder / kind


def _migrate_file(file: Path) -> None:
    _migrate(f"sqlite:///{file}")
    for suffix in ("-wal", "-shm"):
        assert not file.with_name(file.name + suffix).exists()  # all of it is in the file


def _migrate_database(marker: Path) -> None:
    _migrate(_create_database(os.environ["DATABASE_URL"], _database_name(), "template0"))
    marker.touch()


def _migrate(url: str) -> None:
    environ = os.environ | {"DATABASE_URL": url, "GATEWAY_VAR_DIR": str(_folder()), "SECRET_KEY": settings.SECRET_KEY}
    command = [sys.executable, "manage.py", "migrate", "-v0"]
    process = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=patience(40)
    )
    assert process.returncode == 0, process.stdout + process.stderr


def _create_database(url: str, name: str, template: str) -> str:
    _execute(url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def _drop_database(url: str, name: str) -> None:
    _execute(url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _execute(url: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        server.execute(statement)


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"gateway-template-{os.environ[RUN]}"


def _database_name() -> str:
    return f"gateway_template_{os.environ[RUN]}"
