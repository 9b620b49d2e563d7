"""manage.py check, in the place of Django's own, which does not know of the warnings."""

from django.core.management.commands import check

from gateway_project.console.loading import load_console
from gateway_project.management.warnings import ShowsWarnings


class Command(ShowsWarnings, check.Command):
    """Checks the configuration and the console, and shows the warnings that `serve` shows at each start."""

    def check(self, *args: object, **options: object) -> None:
        load_console()
        super().check(*args, **options)
