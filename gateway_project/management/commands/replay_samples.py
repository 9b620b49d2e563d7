"""manage.py replay_samples: what the formats of this version make of what was recorded."""

from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from tests.support import replay

SAMPLES = "tests/providers/formats/samples"


class Command(BaseCommand):
    help = "Replays recorded requests and providers' bytes, and shows every byte that changed."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        default = Path(settings.BASE_DIR) / SAMPLES
        parser.add_argument("folder", nargs="?", type=Path, default=default, help=f"the samples ({SAMPLES})")
        parser.add_argument("--update", action="store_true", help="keep the new results")

    def handle(self, *args: object, folder: Path, update: bool, **options: object) -> None:
        if not folder.is_dir():
            raise CommandError(f"There are no samples in {folder}.")
        found = list(replay.changes(folder))
        for change in found:
            self.stdout.write(change.told())
        if update:
            replay.keep(folder)
        if found and not update:
            raise CommandError(f"{len(found)} results changed; manage.py replay_samples --update keeps the new ones.")
        self.stdout.write(f"{len(found)} results changed, and are kept." if found else "Nothing changed.")
