"""manage.py housekeep: runs the background maintenance of the log to its end."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gateway_project.progress import Progress
from telemetry.retention.housekeeping import Housekeeper


class Command(BaseCommand):
    """Removes what is beyond its days, merges usage, makes partitions; ends with status 1 where that failed."""

    help = "Runs the background maintenance now: retention, partitions, merging of usage."

    def handle(self, *args: Any, **options: Any) -> None:
        progress = Progress(self.stderr)
        housekeeper = Housekeeper(interval=0, on_batch=lambda name, batch: progress.show(f"{name}: batch {batch}"))
        failed = housekeeper.run_to_the_end()
        progress.clear()
        if failed:
            raise CommandError(f"Not done: {', '.join(failed)}.")
        self.stdout.write("Maintenance finished.")
