"""manage.py housekeep: runs the maintenance of the log now, which a running gateway does in the background."""

from django.core.management.base import BaseCommand, CommandError

from gateway_project.database.problems import migration_problem
from gateway_project.progress import Progress
from telemetry.retention.housekeeping import Housekeeper


class Command(BaseCommand):
    """Deletes old entries, merges usage and creates partitions; exits with status 1 if a task failed."""

    help = "Runs the maintenance of the log now: retention, partitions and the merging of usage."

    def handle(self, *args: object, **options: object) -> None:
        progress = Progress(self.stderr)
        housekeeper = Housekeeper(interval=0, on_batch=lambda name, batch: progress.show(f"{name}: batch {batch}"))
        failed = housekeeper.run_to_the_end()
        progress.clear()
        if failed:
            raise CommandError(migration_problem() or f"These tasks failed: {', '.join(failed)}.")
        self.stdout.write("Maintenance finished.")
