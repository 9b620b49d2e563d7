"""Every route of the gateway, and the check that the table of access.py covers it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.checks import CheckMessage, Error
from django.urls import URLPattern, URLResolver, get_resolver

from gateway_project.api.access import SITES, TABLE

BEGIN_AND_END = re.compile(r"\A\^|/\?(\$|\\Z)\Z")
PARAMETER = re.compile(r"\(\?P<(\w+)>[^)]*\)")


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path; `resource` is empty outside the management API.

    `method` is empty for a view that does not declare its methods.
    """

    pattern: str
    name: str
    method: str
    resource: str = ""
    operation: str = ""
    view: Any = None

    @property
    def who(self) -> str | None:
        """Who may use it; None if nothing declares that."""
        if self.resource:
            return TABLE.get(self.resource, {}).get(self.operation)
        operation = getattr(self.view, "operations", {}).get(self.method)
        return operation.who if operation else SITES.get(self.name)

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return PARAMETER.findall(self.pattern)

    @property
    def path(self) -> str:
        """/users/{id}/: with a trailing slash for resources, without for all others."""
        path = "/" + PARAMETER.sub(r"{\1}", BEGIN_AND_END.sub("", self.pattern)).replace("\\.", ".")
        last = path.rpartition("/")[2]
        return f"{path}/" if self.resource and (last == self.resource or last.startswith("{")) else path


def routes(patterns: Iterable[URLPattern | URLResolver] | None = None, prefix: str = "") -> Iterator[Route]:
    """All routes of the URL configuration."""
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        pattern = prefix + str(entry.pattern)
        if not isinstance(entry, URLPattern):
            yield from _routes_of_resolver(entry, pattern)
        elif actions := getattr(entry.callback, "actions", None):
            yield from _operations(entry, pattern, actions)
        else:
            for method in getattr(entry.callback, "operations", None) or [""]:
                yield Route(pattern, entry.name or "", method, view=entry.callback)


def _operations(entry: URLPattern, pattern: str, actions: Mapping[str, str]) -> Iterator[Route]:
    view = getattr(entry.callback, "cls", None)
    resource = getattr(view, "resource_name", "")
    for method, operation in list(actions.items()):
        if method != "head":  # DRF adds it to a view's actions at the first request, as an alias of GET
            yield Route(pattern, entry.name or "", method, resource, operation, view)


def _routes_of_resolver(resolver: URLResolver, prefix: str) -> Iterator[Route]:
    """A site of Django is one route, named after its namespace: it checks access itself."""
    if resolver.namespace:
        yield Route(prefix, resolver.namespace, "")
    else:
        yield from routes(resolver.url_patterns, prefix)


def check_routes(app_configs: object = None, **options: object) -> list[CheckMessage]:
    """An error for each route that the table does not name."""
    return [
        Error(
            f"No permission is defined for {route.method or 'use'} {route.pattern} ({route.resource or route.name}).",
            hint="Name the operation in gateway_project/api/access.py.",
            id="gateway.E007",
        )
        for route in routes()
        if route.who is None
    ]
