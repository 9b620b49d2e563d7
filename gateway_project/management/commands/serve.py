"""manage.py serve"""

import errno
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.utils import OperationalError

from gateway_project.database.problems import connection_problem, file_problem, is_sqlite, migration_problem
from gateway_project.management.demo_port import demo_port
from gateway_project.management.ports import require_free_port
from gateway_project.management.warnings import ShowsWarnings


class Command(ShowsWarnings, BaseCommand):
    """Serves the gateway with gunicorn; its process becomes gunicorn's, so that signals reach it."""

    help = "Runs the gateway, and its demonstration provider if there is one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-demo", action="store_true", help="do not start the demonstration provider")

    def handle(self, *args: object, no_demo: bool, **options: object) -> None:
        problem, port = self._look_at_database(no_demo)
        refuse_unwritable_journal(settings.GATEWAY_JOURNAL_DIR)
        require_free_port(settings.HOST, settings.PORT, variable="PORT", command="manage.py serve")
        if port is not None:
            start_demo(port)
        if problem:
            self.stderr.write(f"{problem}\nUntil the database answers, every key is refused and nobody can log in.")
        verb = "waits for its database at" if problem else "serves"
        self.stdout.write(f"The gateway {verb} {settings.GATEWAY_BASE_URL} (Ctrl-C stops it).")
        self.stdout.flush()
        os.chdir(settings.BASE_DIR)
        # A heap, and a store of freed pieces, for each of hundreds of threads keep several times what these use.
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")
        os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
        os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "gateway_project.wsgi"])

    def _look_at_database(self, no_demo: bool) -> tuple[str, int | None]:
        """Why the server does not answer, which does not keep the gateway from starting; the port of the demonstration.

        Raises CommandError for a database that does not come back by itself.
        """
        if reason := file_problem():
            raise CommandError(reason)
        try:
            if reason := migration_problem():
                raise CommandError(reason)
            return "", None if no_demo or settings.GATEWAY_MODE == "production" else demo_port()
        except OperationalError:
            reason = connection_problem() or "The database does not answer."
            if is_sqlite():
                raise CommandError(reason) from None
            return reason, None
        finally:
            connection.close()


def refuse_unwritable_journal(folder: Path) -> None:
    """Raises CommandError where every request would be refused. A disk that is full may have room again."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            reason = f"Log entries cannot be written in GATEWAY_JOURNAL_DIR, {folder}: {error.strerror}."
            raise CommandError(reason) from None


def start_demo(port: int) -> None:
    """Start the demonstration provider beside the gateway; it ends when the last of our processes does.

    Its standard input is a pipe whose other end only we hold: when we are gone, however, it reads the end.
    """
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    manage = str(settings.BASE_DIR / "manage.py")
    arguments = [sys.executable, manage, "demo_provider", "--port", str(port), "--until-stdin-closes"]
    # A session of its own: Ctrl-C must not end it before the requests that the gateway still serves.
    subprocess.Popen(arguments, stdin=reading, stdout=subprocess.DEVNULL, close_fds=True, start_new_session=True)
    os.close(reading)
