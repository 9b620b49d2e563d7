"""Puts the console's site in the place of Django's own."""

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    default_site = "gateway_project.console.site.ConsoleSite"
