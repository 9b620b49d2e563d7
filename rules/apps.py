"""The app's name and nothing else."""

from django.apps import AppConfig


class RulesConfig(AppConfig):
    name = "rules"
    verbose_name = "Access"  # where it stands in the console
