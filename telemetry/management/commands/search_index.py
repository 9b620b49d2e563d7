"""manage.py search_index on|off: the index that makes searching the log fast and writing it expensive."""

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from gateway_project.progress import Progress
from telemetry.search import create_index, drop_index


class Command(BaseCommand):
    help = (
        "Creates or drops the trigram index that makes searches of the log fast and writing entries far more expensive."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("state", choices=["on", "off"])

    def handle(self, *args: object, state: str, **options: object) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("Only PostgreSQL has trigram indexes.")
        progress = Progress(self.stderr)
        progress.show("Creating the index: minutes for a long log" if state == "on" else "Dropping the index")
        create_index() if state == "on" else drop_index()
        progress.clear()
        self.stdout.write(f"The search index is {state}.")
