"""manage.py check, in the place of Django's own, which does not know of the warnings."""

from django.core.management.commands import check

from gateway_project.management.warnings import ShowsWarnings


class Command(ShowsWarnings, check.Command):
    """Checks the configuration, and shows the warnings about it that `serve` shows at each start."""
