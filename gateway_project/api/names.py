"""Translates names between camelCase, on the wire, and snake_case, in Python."""

import re
from collections.abc import Iterable
from functools import lru_cache

CAMEL_CASE = re.compile(r"[a-z][a-zA-Z0-9]{0,63}\Z")


@lru_cache(maxsize=4096)
def camel(name: str) -> str:
    """display_name -> displayName; a name of a request can be empty."""
    return _format(name, "camelize") if name else name


def snake(name: str) -> str | None:
    """displayName -> display_name; None unless the name is exactly the camelCase form of its translation."""
    if not CAMEL_CASE.match(name):
        return None
    python_name = _format(name, "underscore")
    return python_name if camel(python_name) == name else None


def list_names(names: Iterable[str]) -> str:
    """A sentence with the names that would have been right, as they are on the wire."""
    return f"Known: {', '.join(map(camel, names)) or 'none'}."


def _format(name: str, style: str) -> str:
    from rest_framework_json_api.utils import format_value  # imported here: most commands do without REST framework

    return str(format_value(name, style))
