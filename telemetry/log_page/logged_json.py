"""A logged body as an object: the log keeps some as a text, and cuts those that are too long."""

import json
from collections.abc import Iterator, Mapping
from functools import reduce

from gateway_project.json_types import JsonObject

CLOSING = {"{": "}", "[": "]"}
MAX_DEPTH = 2  # of what is kept of a cut body: members of the object, and items of its lists


def logged_object(body: object) -> tuple[JsonObject | None, bool]:
    """The object, and whether the log has the whole of it; None for a body that is no object."""
    if not isinstance(body, str):
        return (body, True) if isinstance(body, dict) else (None, True)
    if not body.lstrip().startswith("{"):
        return None, True
    if (value := _parse_json(body)) is not None:
        return value, True
    end, closing = reduce(lambda _, last: last, _ends(body), (0, "{}"))
    return _parse_json(body[:end] + closing), False


def _parse_json(text: str) -> JsonObject | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _ends(text: str) -> Iterator[tuple[int, str]]:
    """Where a whole member of the object ends, or a whole item of a list in it, and what closes the text there."""
    nesting: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == '"':
            at = _end_of_string(text, at)
        elif sign in CLOSING:
            nesting.append(CLOSING[sign])
        elif nesting and sign == nesting[-1]:
            nesting.pop()
            if nesting and len(nesting) <= MAX_DEPTH:
                yield at + 1, "".join(reversed(nesting))
        elif sign == "," and nesting and len(nesting) <= MAX_DEPTH:
            yield at, "".join(reversed(nesting))
        at += 1


def _end_of_string(text: str, start: int) -> int:
    """The place of the quote that ends a string; the length of the text if there is none."""
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at


def as_object(value: object) -> Mapping[str, object]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects_in(value: object) -> list[Mapping[str, object]]:
    """The objects of a list; none of what is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
