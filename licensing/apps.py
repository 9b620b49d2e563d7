"""The app's name and nothing else."""

from django.apps import AppConfig


class LicensingConfig(AppConfig):
    name = "licensing"
