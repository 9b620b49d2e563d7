"""Creates the row of every format that the code knows after each migrate."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from providers.builtin import write_formats


class ProvidersConfig(AppConfig):
    name = "providers"

    def ready(self) -> None:
        # Not a data migration: flush, which empties this table too, sends this signal and runs no migration.
        post_migrate.connect(write_formats, sender=self, dispatch_uid="providers.builtin")
