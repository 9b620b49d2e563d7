"""Query parameters, read strictly: one that is unknown, repeated or of the wrong type is refused, never ignored."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from rest_framework.filters import BaseFilterBackend

from gateway_project.errors import ValidationError

GREATEST_ID = 2**63 - 1
WHOLE = re.compile(r"[0-9]{1,19}\Z")
LONGEST_TEXT = 1000
WITHOUT_NUL = r"^[^\u0000]*$"

Lookup = str | Callable[[QuerySet, Any], QuerySet]


class Filter:
    """One query parameter: how its text is read, and what it selects.

    `lookup` is a lookup of the ORM, a function of queryset and value, or '' where the viewset itself looks at the
    value; `about` tells readers of the OpenAPI document what it selects.
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


class Whole(Filter):
    """An id."""

    expected = "a whole number"
    schema = {"type": "integer", "format": "int64", "minimum": 0, "maximum": GREATEST_ID}

    def read(self, text: str) -> int:
        if not WHOLE.match(text) or int(text) > GREATEST_ID:
            raise ValueError
        return int(text)


class Flag(Filter):
    expected = "true or false"
    schema = {"type": "boolean"}

    def read(self, text: str) -> bool:
        return {"true": True, "false": False}[text]


class Text(Filter):
    expected = f"a text of at most {LONGEST_TEXT} characters without NUL"
    schema = {"type": "string", "maxLength": LONGEST_TEXT, "pattern": WITHOUT_NUL}

    def read(self, text: str) -> str:
        if len(text) > LONGEST_TEXT or "\0" in text:
            raise ValueError
        return text


class OneOf(Filter):
    """A text out of a few: a misspelt one would find nothing, and look as if there were nothing."""

    def __init__(self, lookup: Lookup, values: Iterable[str], about: str = "") -> None:
        super().__init__(lookup, about)
        self.values = tuple(values)
        self.expected = f"one of {', '.join(self.values)}"
        self.schema = {"type": "string", "enum": list(self.values)}

    def read(self, text: str) -> str:
        if text not in self.values:
            raise ValueError
        return text


class Moment(Filter):
    """A date-time in any offset, UTC where none is given."""

    expected = "an ISO 8601 date-time"
    schema = {"type": "string", "format": "date-time"}

    def read(self, text: str) -> datetime:
        # A plus sign that was not escaped arrives as a blank.
        moment = datetime.fromisoformat(re.sub(r" (?=\d\d(:?\d\d)?\Z)", "+", text) if "T" in text else text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def read_parameters(parameters: Any, known: Mapping[str, Filter | None]) -> dict[str, Any]:
    """The values of the filters that are given; raises ValidationError naming the parameter that is wrong.

    A name whose filter is None is known, and read by somebody else.
    """
    refuse_unknown(parameters, known)
    return {name: _read(name, known[name], parameters[name]) for name in parameters if known[name] is not None}


def refuse_unknown(parameters: Any, known: Iterable[str]) -> None:
    for name, values in parameters.lists():
        if name not in known:
            raise ValidationError(f"{name[:100]}: there is no such query parameter here.")
        if len(values) > 1:
            raise ValidationError(f"{name}: stands in the query more than once.")


def _read(name: str, kind: Filter, text: str) -> Any:
    try:
        return kind.read(text)
    except (ValueError, KeyError, OverflowError):
        raise ValidationError(f"{name}: must be {kind.expected}.") from None


class ApiFilters(BaseFilterBackend):
    """Applies the filters that a viewset declares in `filters`, under their names on the wire."""

    def filter_queryset(self, request, queryset: QuerySet, view) -> QuerySet:
        for name, value in view.filter_values().items():
            queryset = view.filters[name].apply(queryset, value)
        return queryset
