"""Query parameters, read strictly: one that is unknown, repeated or of the wrong type is refused, never ignored."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from rest_framework.filters import BaseFilterBackend

from gateway_project.errors import ValidationError

MAX_ID = 2**63 - 1
DIGITS = re.compile(r"[0-9]{1,19}\Z")
MAX_TEXT_LENGTH = 1000
WITHOUT_NUL = r"^[^\u0000]*$"

Lookup = str | Callable[[QuerySet, Any], QuerySet]


class Filter:
    """One query parameter: how its text is parsed, and which rows it selects.

    `lookup` is a lookup of the ORM, a function of queryset and value, or '' if the viewset itself uses the value;
    `about` is its description in the OpenAPI document.
    """

    expected: str
    schema: dict[str, Any]

    def __init__(self, lookup: Lookup, about: str = "") -> None:
        self.lookup = lookup
        self.about = about

    def read(self, text: str) -> Any:
        """The value; raises ValueError."""
        raise NotImplementedError

    def apply(self, queryset: QuerySet, value: Any) -> QuerySet:
        if callable(self.lookup):
            return self.lookup(queryset, value)
        return queryset.filter(**{self.lookup: value}) if self.lookup else queryset


class Integer(Filter):
    """An id."""

    expected = "a whole number"
    schema = {"type": "integer", "format": "int64", "minimum": 0, "maximum": MAX_ID}

    def read(self, text: str) -> int:
        if not DIGITS.match(text) or int(text) > MAX_ID:
            raise ValueError
        return int(text)


class Boolean(Filter):
    expected = "true or false"
    schema = {"type": "boolean"}

    def read(self, text: str) -> bool:
        return {"true": True, "false": False}[text]


class Text(Filter):
    expected = f"a text of at most {MAX_TEXT_LENGTH} characters without NUL"
    schema = {"type": "string", "maxLength": MAX_TEXT_LENGTH, "pattern": WITHOUT_NUL}

    def read(self, text: str) -> str:
        if len(text) > MAX_TEXT_LENGTH or "\0" in text:
            raise ValueError
        return text


class Choice(Filter):
    """One of a few texts; a misspelt one is refused, as its empty result would look as if there were no rows."""

    def __init__(self, lookup: Lookup, values: Iterable[str], about: str = "") -> None:
        super().__init__(lookup, about)
        self.values = tuple(values)
        self.expected = f"one of {', '.join(self.values)}"
        self.schema = {"type": "string", "enum": list(self.values)}

    def read(self, text: str) -> str:
        if text not in self.values:
            raise ValueError
        return text


class DateTime(Filter):
    """A date-time in any offset, UTC where none is given."""

    expected = "an ISO 8601 date-time"
    schema = {"type": "string", "format": "date-time"}

    def read(self, text: str) -> datetime:
        # An unescaped plus sign arrives as a blank.
        moment = datetime.fromisoformat(re.sub(r" (?=\d\d(:?\d\d)?\Z)", "+", text) if "T" in text else text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def read_parameters(parameters: Any, known: Mapping[str, Filter | None]) -> dict[str, Any]:
    """The values of the filters that are given; raises ValidationError naming the wrong parameter.

    A name whose filter is None is allowed and not read here.
    """
    refuse_unknown(parameters, known)
    return {name: _read(name, known[name], parameters[name]) for name in parameters if known[name] is not None}


def refuse_unknown(parameters: Any, known: Iterable[str]) -> None:
    for name, values in parameters.lists():
        if name not in known:
            raise ValidationError("unknown query parameter.", parameter=name[:100])
        if len(values) > 1:
            raise ValidationError("is given more than once in the query.", parameter=name)


def _read(name: str, kind: Filter, text: str) -> Any:
    try:
        return kind.read(text)
    except (ValueError, KeyError, OverflowError):
        raise ValidationError(f"must be {kind.expected}.", parameter=name) from None


class ApiFilters(BaseFilterBackend):
    """Applies the filters that a viewset declares in `filters`, under their names on the wire."""

    def filter_queryset(self, request, queryset: QuerySet, view) -> QuerySet:
        for name, value in view.filter_values().items():
            queryset = view.filters[name].apply(queryset, value)
        return queryset
