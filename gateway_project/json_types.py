"""Types of JSON documents. The environment of WSGI has its own in `wsgiref.types`."""

from typing import Any, TypeAlias

# An object as a parser returns it: what its members are is for its reader to check.
JsonObject: TypeAlias = dict[str, Any]
