"""Which commands warn of a configuration that is likely a mistake: the others would repeat it at every start."""

from django.core import checks as framework

from gateway_project.checks import configuration_warnings


class ShowsWarnings:
    """Beside BaseCommand: its system checks include the warnings about the configuration."""

    def check(self, *args: object, **options: object) -> None:
        framework.register(configuration_warnings, "gateway")
        super().check(*args, **options)  # type: ignore[misc]
