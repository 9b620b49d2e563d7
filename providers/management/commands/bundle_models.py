"""manage.py bundle_models: writes the bundled table of models anew.

For whoever maintains the gateway: it takes LiteLLM's file of models (`model_prices_and_context_window.json` of its
repository or package), and genai-prices, which is one of requirements-dev.txt. The gateway needs neither.
"""

import json
from datetime import date
from importlib.metadata import version
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from providers.pricing.bundling_facts import context_windows, facts_of_models, written_facts
from providers.pricing.facts import BUNDLED


class Command(BaseCommand):
    """Writes providers/pricing/data/models.json."""

    help = "Updates the bundled table of models. For maintainers; needs genai-prices and LiteLLM's file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", help="LiteLLM's file of models")

    def handle(self, *args: object, path: str, **options: object) -> None:
        try:
            from genai_prices.data_snapshot import get_snapshot
        except ImportError:
            raise CommandError("genai-prices is not installed. requirements-dev.txt contains it.") from None
        table = json.loads(Path(path).read_text(encoding="utf-8"))
        facts = facts_of_models(table, context_windows(get_snapshot().providers))
        lines = [json.dumps(written_facts(name, values)) for name, values in facts.items()]
        about = {
            "source": "LiteLLM's model_prices_and_context_window.json, MIT licence, Berri AI; context lengths of "
            f"genai-prices {version('genai-prices')}, MIT licence, Pydantic Services Inc.",
            "date": date.today().isoformat(),  # noqa: DTZ011 (a day is enough)
        }
        head, between = json.dumps(about, indent=1).removesuffix("\n}"), ",\n  "
        BUNDLED.write_text(f'{head},\n "models": [\n  {between.join(lines)}\n ]\n}}\n')
        self.stdout.write(f"{len(lines)} models are in {BUNDLED}.")
