"""The app, and the check of the licence that it provides."""

from django.apps import AppConfig


class LicensingConfig(AppConfig):
    name = "licensing"
    verbose_name = "Access"  # where it stands in the console

    def ready(self) -> None:
        from gateway_project.api import licence
        from licensing import services

        licence.require_licence.provide(services.require_licence)
