"""Whether the database can be used at all, told in one line for operators: which one it is, and why not."""

import os
from pathlib import Path

from django.db import Error, connection

# PostgreSQL's words for a right that is missing, and for a replica that only reads.
NOT_ALLOWED = ("42501", "25006")


def why_away() -> str:
    """'' where it can; else its path or its host, and what is wrong with it."""
    try:
        if connection.vendor == "postgresql":
            _open_postgresql()
        else:
            _write_nothing()
    except Exception as error:  # the driver's own errors among them
        return f"{_name()} cannot be used: {_first_line(error)}"
    return ""


def why_refused(error: BaseException | None) -> str:
    """'' unless the database answers, and does not let its user do what was asked."""
    while error is not None:  # Django wraps the driver's own, and `migrate` wraps that
        if getattr(error, "sqlstate", None) in NOT_ALLOWED:
            return f"{_name()} cannot be used: {_first_line(error)}"
        error = error.__cause__ or error.__context__
    return ""


def why_unwritable() -> str:
    """'' unless it is a file that this user may not write, or may write nothing beside, as SQLite has to."""
    path = Path(connection.settings_dict["NAME"])
    if not is_a_file() or not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return ""
    return f"{_name()} cannot be used: this user may not write it, or not in its folder."


def is_a_file() -> bool:
    """Whether it is a file of this machine, which will not come back by itself."""
    return connection.vendor == "sqlite"


def _write_nothing() -> None:
    folder = Path(connection.settings_dict["NAME"]).parent
    if not folder.exists():  # of which SQLite says no more than that it is unable to open the file
        raise FileNotFoundError(f"there is no folder {folder}")
    connection.close()
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
    finally:
        connection.close()


def _open_postgresql() -> None:
    """Without the pool, which knows only that it waited in vain."""
    import psycopg

    psycopg.connect(**connection.get_connection_params()).close()


def _name() -> str:
    database = connection.settings_dict
    if is_a_file():
        return f"The database file {database['NAME']}"
    host = database["HOST"] or "this machine"
    return f"The database {database['NAME']} at {host}:{database['PORT'] or 5432}"


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ if isinstance(error, Error) and error.__cause__ else error
    return (str(cause) or type(cause).__name__).splitlines()[0]
