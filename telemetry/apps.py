"""Creates the partitions of the log after each migrate."""

from django.apps import AppConfig
from django.db import connection
from django.db.models.signals import post_migrate


class TelemetryConfig(AppConfig):
    name = "telemetry"
    verbose_name = "Traffic"  # where it stands in the console

    def ready(self) -> None:
        from gateway_project.api import audit
        from telemetry.audit.recording import record_change

        audit.store_change.provide(record_change)
        post_migrate.connect(make_partitions, sender=self, dispatch_uid="telemetry.retention.partitions")

    def load_console(self) -> None:
        from keys import admin as key_admin
        from providers.console import listed_models
        from telemetry import cache_admin  # noqa: F401  these five add their pages to the site
        from telemetry.audit import admin  # noqa: F401
        from telemetry.guardrails import page as guardrails  # noqa: F401
        from telemetry.guardrails import samples_page  # noqa: F401
        from telemetry.statistics_page import page as statistics  # noqa: F401
        from telemetry.usage.key_costs import costs_of_keys
        from telemetry.usage.model_traffic import requests_of_models

        key_admin.read_costs_of_keys.provide(costs_of_keys)
        listed_models.read_model_traffic.provide(requests_of_models)


def make_partitions(using: str, **signal: object) -> None:
    """Create the current and coming partitions, if the log is partitioned."""
    from django.utils import timezone

    from telemetry.retention import partitions

    if using == "default" and connection.vendor == "postgresql" and partitions.tables():
        partitions.create_ahead(timezone.now())
