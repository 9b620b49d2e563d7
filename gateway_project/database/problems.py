"""Why the database cannot be used, in one line for operators that names it."""

import os
from pathlib import Path

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

# SQLSTATE of a missing privilege, and of a write to a read-only standby.
FORBIDDEN_CODES = ("42501", "25006")


def connection_problem() -> str:
    """Why no connection can be opened, or '' if one can."""
    try:
        if connection.vendor == "postgresql":
            _open_postgresql()
        else:
            _lock_sqlite()
    except Exception as error:  # the driver's own errors among them
        return f"{_name()} cannot be used: {_first_line(error)}"
    return ""


def permission_problem(error: BaseException | None) -> str:
    """The database's message if it refused this error's statement for lack of permission, else ''."""
    while error is not None:  # Django wraps the driver's error, and `migrate` wraps Django's
        if getattr(error, "sqlstate", None) in FORBIDDEN_CODES:
            return f"{_name()} cannot be used: {_first_line(error)}"
        error = error.__cause__ or error.__context__
    return ""


def migration_problem() -> str:
    """That migrations are missing, as in a new database, or ''."""
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return ""
    return "The database is not up to date: run `manage.py migrate` (or `quickstart`) first."


def file_problem() -> str:
    """Why SQLite cannot write its file, or files beside it, or ''."""
    path = Path(connection.settings_dict["NAME"])
    if not is_sqlite() or not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return ""
    return f"{_name()} cannot be used: the operating system's user may not write to the file or its folder."


def is_sqlite() -> bool:
    """Whether it is a file of this machine: unlike a server, it does not come back by itself."""
    return connection.vendor == "sqlite"


def _lock_sqlite() -> None:
    folder = Path(connection.settings_dict["NAME"]).parent
    if not folder.exists():  # SQLite only says that it is unable to open the file
        raise FileNotFoundError(f"there is no folder {folder}")
    connection.close()
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
    finally:
        connection.close()


def _open_postgresql() -> None:
    """Without the pool, whose only error is that no connection came in time."""
    import psycopg

    psycopg.connect(**connection.get_connection_params()).close()


def _name() -> str:
    database = connection.settings_dict
    if is_sqlite():
        return f"The database file {database['NAME']}"
    host = database["HOST"] or "this machine"
    return f"The database {database['NAME']} at {host}:{database['PORT'] or 5432}"


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ if isinstance(error, Error) and error.__cause__ else error
    return (str(cause) or type(cause).__name__).splitlines()[0]
