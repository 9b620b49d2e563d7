"""The wire is camelCase, Python is snake_case; this is the one place that translates."""

import re
from functools import lru_cache

from rest_framework_json_api.utils import format_value

ON_THE_WIRE = re.compile(r"[a-z][a-zA-Z0-9]{0,63}\Z")


@lru_cache(maxsize=4096)
def camel(name: str) -> str:
    """display_name -> displayName."""
    return format_value(name, "camelize")


def snake(name: str) -> str | None:
    """displayName -> display_name; None for what is no name of the wire: one thing has one name there."""
    if not ON_THE_WIRE.match(name):
        return None
    found = format_value(name, "underscore")
    return found if camel(found) == name else None
