"""The backend that DATABASES names: the driver is loaded by whoever connects, and not by whoever reads the settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db.backends.postgresql import base


class PatientConnection(psycopg.Connection):
    """Gives a statement so many seconds, on this side: a server that has frozen keeps no time-out of its own.

    Its kernel goes on answering ours, so that neither keepalives nor tcp_user_timeout notice.
    """

    patience: float | None = None  # seconds; the server's processes set it (gunicorn.conf.py), commands may take longer

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        options.setdefault("timeout", self.patience)
        try:
            return super().wait(gen, *args, **options)
        except psycopg.errors._WaitTimeout as error:
            self.pgconn.finish()  # its answer may still come, and would be taken for the next one's
            raise psycopg.OperationalError(f"the database did not answer within {options['timeout']} s") from error


class DatabaseWrapper(base.DatabaseWrapper):
    """Its pool makes such connections."""

    def __init__(self, settings_dict: dict[str, Any], alias: str = "default") -> None:
        settings_dict["OPTIONS"].get("pool", {})["connection_class"] = PatientConnection
        super().__init__(settings_dict, alias)

    @contextmanager
    def hurried(self, seconds: float) -> Iterator[None]:
        """Inside, the server has so many seconds for each statement."""
        self.ensure_connection()
        connected = self.connection
        connected.patience = seconds
        try:
            yield
        finally:
            del connected.patience
