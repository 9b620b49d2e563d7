"""The database backend for PostgreSQL; a module of its own, so that reading the settings does not load the driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db.backends.postgresql import base


class TimeoutConnection(psycopg.Connection):
    """Has a time-out for statements on the client's side: a frozen server does not enforce its own.

    The kernel of such a server still answers, so that neither keepalives nor tcp_user_timeout notice.
    """

    statement_timeout: float | None = None  # seconds; set in serving processes (gunicorn.conf.py), not in commands

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        options.setdefault("timeout", self.statement_timeout)
        try:
            return super().wait(gen, *args, **options)
        except psycopg.errors._WaitTimeout as error:
            self.pgconn.finish()  # else a late answer would be taken for that of the next statement
            raise psycopg.OperationalError(f"the database did not answer within {options['timeout']} s") from error


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend, with a pool of such connections."""

    def __init__(self, settings_dict: dict[str, Any], alias: str = "default") -> None:
        settings_dict["OPTIONS"].get("pool", {})["connection_class"] = TimeoutConnection
        super().__init__(settings_dict, alias)

    @contextmanager
    def statement_timeout(self, seconds: float) -> Iterator[None]:
        """Inside, each statement has this time-out."""
        self.ensure_connection()
        connection = self.connection
        connection.statement_timeout = seconds
        try:
            yield
        finally:
            del connection.statement_timeout
