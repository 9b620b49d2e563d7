"""The formats that every instance has, written after each migrate where they are missing."""

from django.apps import apps as current
from django.apps.registry import Apps
from django.db import router

from gateway_project.database.names import missing_names
from providers.formats import FORMATS


def write_formats(using: str, apps: Apps = current, **signal: object) -> None:
    """Create the missing formats."""
    try:
        ProviderFormat = apps.get_model("providers", "ProviderFormat")
    except LookupError:  # the app was migrated back to nothing
        return
    if router.allow_migrate_model(using, ProviderFormat):
        formats = ProviderFormat.objects.using(using)
        for name in missing_names(formats, FORMATS):
            formats.get_or_create(name=name)
