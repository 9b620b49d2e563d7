"""manage.py backup"""

import sqlite3
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_project.api.audit import operator, record_command
from gateway_project.database.sqlite.backups import back_up
from gateway_project.key_file import KeyFile
from gateway_project.management.databases import database_file


class Command(BaseCommand):
    """Copies an SQLite database to a new file while the gateway serves."""

    help = "Copies the SQLite database to a new file. The gateway can run meanwhile; the copy is consistent."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the file to create; an existing file is not changed")

    def handle(self, *args: object, file: Path, **options: object) -> None:
        database, target = database_file("pg_dump"), file
        if not database.exists():
            raise CommandError(f"There is no database file {database}.")
        try:
            back_up(database, target)
        except FileExistsError:
            raise CommandError(f"{target} exists and was not changed. Name a new file.") from None
        except OSError as error:
            raise CommandError(f"{target} cannot be written: {error.strerror}.") from None
        except sqlite3.Error as error:
            raise CommandError(f"{database} cannot be copied to {target}: {error}.") from None
        record_command("backup", "database", message=f"{operator()} made a backup of the database, by manage.py.")
        self.stdout.write(f"The database was copied to {target} ({target.stat().st_size:,} bytes).")
        if isinstance(settings.GATEWAY_ENCRYPTION_KEYS, KeyFile):
            folder = settings.GATEWAY_ENCRYPTION_KEYS.path.parent
            self.stdout.write(f"Copy {folder} too: without its keys, the credentials in the copy cannot be decrypted.")
