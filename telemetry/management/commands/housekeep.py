"""manage.py housekeep: what a running gateway does by itself, to the end and now."""

from typing import Any

from django.core.management.base import BaseCommand

from telemetry.housekeeping import Housekeeper


class Command(BaseCommand):
    """Removes what is beyond its days, merges usage, makes partitions."""

    help = "Does at once what a running gateway does by and by: retention, partitions, merging of usage."

    def handle(self, *args: Any, **options: Any) -> None:
        Housekeeper(interval=0).round(seconds=float("inf"))
        self.stdout.write("The house is kept.")
