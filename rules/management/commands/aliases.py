"""manage.py aliases"""

from collections.abc import Iterator

from django.core.management.base import BaseCommand, CommandParser

from rules.aliases.lines import as_lines
from rules.aliases.models import Alias


class Command(BaseCommand):
    """Lists the aliases with what serves them."""

    help = "Lists the aliases, each with its targets in the stored order."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list all aliases")

    def handle(self, *args: object, **options: object) -> None:
        aliases = Alias.objects.shown().order_by("name")
        for alias in aliases:
            for line in _lines(alias):
                self.stdout.write(line)
        if not aliases:
            self.stdout.write("There are no aliases.")


def _lines(alias: Alias) -> Iterator[str]:
    state = "" if alias.enabled else ", disabled"
    causes = ", ".join(alias.fallback_on) or "nothing"
    yield f"{alias.name} (id {alias.pk}{state}): {alias.strategy}, falls back after {causes}"
    targets = as_lines(alias.targets.all()) or "no targets: requests are refused"
    yield from (f"  {line}" for line in targets.splitlines())
    if alias.mirror is not None:
        yield f"  mirrors {alias.mirror_share:.1%} to {alias.mirror.provider.name}/{alias.mirror.name}"
