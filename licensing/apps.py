"""The app, and what it provides: the check of the licence, and the limits of new keys."""

from django.apps import AppConfig


class LicensingConfig(AppConfig):
    name = "licensing"
    verbose_name = "Access"  # where it stands in the console

    def ready(self) -> None:
        from gateway_project.api.access import require_licence
        from keys.own_limits import set_own_limits
        from licensing import services
        from licensing.key_limits import set_key_limits

        require_licence.provide(services.require_licence)
        set_own_limits.provide(set_key_limits)
