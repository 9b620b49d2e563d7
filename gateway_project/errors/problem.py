"""One thing that is wrong with a request, and JSON:API's error object of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway_project.json_types import JsonObject

SEGMENT = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where: in a field of the body, a parameter of the query or a header, or nowhere in particular.

    `field` is a path such as `messages[0].role`, or a JSON pointer into the whole document if it begins with a slash.
    `meta` has members of JSON:API's `meta` about what the problem is with.
    """

    detail: str
    field: str = ""
    parameter: str = ""
    header: str = ""
    meta: tuple[tuple[str, int | str], ...] = ()

    @property
    def sentence(self) -> str:
        """The detail with the name of the place, for people who do not see the place."""
        name = self.parameter or self.header or self.field
        if name.startswith("/"):
            name = _unescape(name.rpartition("/")[2])
        return f"{name}: {self.detail}" if name else self.detail

    def with_names(self, names: Mapping[str, str]) -> "Problem":
        """The same with the name that readers know the field by, where `names` has one."""
        return replace(self, field=names.get(self.field, self.field))

    def source(self, root: str) -> dict[str, str]:
        """JSON:API's `source`, with paths of fields below the pointer `root`; empty if the place is unknown."""
        if self.field:
            return {"pointer": self.field if self.field.startswith("/") else f"{root}{_pointer(self.field)}"}
        if self.parameter:
            return {"parameter": self.parameter}
        return {"header": self.header} if self.header else {}

    def error_object(self, root: str, *, status: int, code: str, title: str) -> JsonObject:
        """JSON:API's error object."""
        document: JsonObject = {"status": str(status), "code": code, "title": title, "detail": self.detail}
        if self.meta:
            document["meta"] = dict(self.meta)
        source = self.source(root)
        return {**document, "source": source} if source else document


def escape_pointer(name: str) -> str:
    """A name as a segment of a JSON pointer: RFC 6901, section 3."""
    return name.replace("~", "~0").replace("/", "~1")


def _unescape(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")


def _pointer(path: str) -> str:
    return "".join(f"/{escape_pointer(segment)}" for segment in SEGMENT.findall(path))
