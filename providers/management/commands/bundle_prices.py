"""manage.py bundle_prices: writes the bundled table of public prices anew, out of the package genai-prices.

For whoever maintains the gateway: the package is one of requirements-dev.txt, and the gateway does not need it.
"""

import json
from datetime import date
from importlib.metadata import version

from django.core.management.base import BaseCommand, CommandError

from providers.pricing.bundling import entries
from providers.pricing.public_prices import BUNDLED


class Command(BaseCommand):
    """Writes providers/pricing/data/prices.json."""

    help = "Updates the bundled table of public prices. For maintainers; needs genai-prices."

    def handle(self, *args: object, **options: object) -> None:
        try:
            from genai_prices.data_snapshot import get_snapshot
        except ImportError:
            raise CommandError("genai-prices is not installed. requirements-dev.txt contains it.") from None
        lines = list(dict.fromkeys(json.dumps(entry) for entry in entries(get_snapshot().providers)))
        about = {
            "source": f"genai-prices {version('genai-prices')}, MIT licence, Pydantic Services Inc.",
            "date": date.today().isoformat(),  # noqa: DTZ011 (a day is enough)
            "currency": "USD",
        }
        head, between = json.dumps(about, indent=1).removesuffix("\n}"), ",\n  "
        BUNDLED.write_text(f'{head},\n "prices": [\n  {between.join(lines)}\n ]\n}}\n')
        self.stdout.write(f"{len(lines)} prices are in {BUNDLED}.")
