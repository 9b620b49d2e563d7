"""The app's name and nothing else."""

from django.apps import AppConfig


class LicensingConfig(AppConfig):
    name = "licensing"
    verbose_name = "Access"  # where it stands in the console
