"""manage.py restore"""

import sqlite3
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from gateway_project.api.audit import operator, record_command
from gateway_project.database.sqlite.backups import NotABackup, check_backup, put_back
from gateway_project.database.sqlite.usage_lock import InUse
from gateway_project.management.databases import database_file


class Command(BaseCommand):
    """Puts a backup in the place of an SQLite database, while no gateway runs on it."""

    help = "Replaces the SQLite database with a backup that manage.py backup made. Stop the gateway first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the backup")

    def handle(self, *args: object, file: Path, **options: object) -> None:
        database, backup = database_file("pg_restore"), file
        try:
            check_backup(backup, MigrationLoader(None).disk_migrations.keys())
        except NotABackup as reason:
            raise CommandError(f"{backup} cannot be restored: {reason}.") from None
        connection.close()
        try:
            former = put_back(backup, database)
        except InUse:
            raise CommandError(f"A gateway uses {database}. Stop it, and run restore again.") from None
        except (OSError, sqlite3.Error) as error:
            raise CommandError(f"{backup} cannot be copied to {database}: {error}.") from None
        self.stdout.write(f"Restored the database from {backup}.")
        if former is not None:
            self.stdout.write(f"The previous database is {former}. Delete it when you no longer need it.")
        self._record(backup)

    def _record(self, backup: Path) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):  # its log may have other columns
            self.stdout.write("The backup is of an older version: run `manage.py migrate` before `serve`.")
            return
        record_command("restore", "database", message=f"{operator()} restored the database, by manage.py.")
