"""The app, and what it provides: the check of the licence, and the limits of new keys."""

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from gateway_project.api.access import Caller
    from keys.models import ApiKey


class LicensingConfig(AppConfig):
    name = "licensing"
    verbose_name = "Access"  # where it stands in the console

    def ready(self) -> None:
        from gateway_project.api.access import require_licence
        from keys.own_limits import set_own_limits
        from licensing import services

        require_licence.provide(services.require_licence)
        set_own_limits.provide(_set_key_limits)


def _set_key_limits(key: "ApiKey", limits: list[object], caller: "Caller") -> None:
    from licensing.key_limits import set_key_limits  # imported here: it loads the management API

    set_key_limits(key, limits, caller)
