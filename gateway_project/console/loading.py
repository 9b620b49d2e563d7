"""Loads the console when the URLs are loaded: commands have no use for its pages."""

from functools import cache
from typing import Protocol, runtime_checkable

from django.apps import apps
from django.contrib import admin


@runtime_checkable
class HasPages(Protocol):
    """An app that adds more to the console than the tables of its `admin.py`."""

    def load_console(self) -> None:
        """Import the modules that add the app's pages to the site, and provide what the console asks of the app."""


@cache
def load_console() -> None:
    """Add every table and page to the site, once."""
    admin.autodiscover()
    for app in apps.get_app_configs():
        if isinstance(app, HasPages):
            app.load_console()
