"""manage.py sync_prices: the public prices that come with the gateway, or those of a file."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_project.errors import GatewayError
from providers.pricing.public_prices import BUNDLED, describe_counts, load_prices


class Command(BaseCommand):
    """Loads a table of prices; run again it changes nothing."""

    help = "Updates model prices from the bundled table of public prices. Keeps edited prices."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path, default=BUNDLED, help="another table in the same format")

    def handle(self, *args: object, file: Path, **options: object) -> None:
        try:
            counts = load_prices(file)
        except GatewayError as error:
            raise CommandError(error.sentence) from None
        self.stdout.write(f"Prices: {describe_counts(counts)}.")
