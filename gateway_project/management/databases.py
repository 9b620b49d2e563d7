"""The file of the database, for commands that need one."""

from pathlib import Path

from django.core.management.base import CommandError
from django.db import connection

from gateway_project.database.problems import is_sqlite


def database_file(program: str) -> Path:
    """The file of SQLite; raises CommandError for PostgreSQL, naming its own program for the same purpose."""
    if not is_sqlite():
        raise CommandError(f"This command is for SQLite. For PostgreSQL use {program}: see docs/operations.md, Backup.")
    return Path(connection.settings_dict["NAME"])
