"""The app's name and nothing else."""

from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"
    verbose_name = "Access"  # where it stands in the console
