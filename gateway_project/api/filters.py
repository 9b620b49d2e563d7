"""Query parameters, read strictly: one that is unknown, repeated or of the wrong type is refused, never ignored."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.http import QueryDict
from rest_framework import serializers

from gateway_project.api import fields
from gateway_project.api.names import list_names
from gateway_project.database.ids import MAX_ID
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

MAX_TEXT_LENGTH = 1000
WITHOUT_NUL = r"^[^\u0000]*$"
Rows = TypeVar("Rows", bound=QuerySet[Any])
# A lookup of the ORM, a function of queryset and value, or '' if the viewset itself uses the value.
Lookup = str | Callable[[Any, Any], Any]


class Filter:
    """One query parameter: how its text is read, and which rows it selects.

    `about` is its description in the OpenAPI document, `expected` what errors say that the value must be.
    """

    expected: str
    schema: JsonObject

    def __init__(self, lookup: Lookup, about: str = "") -> None:
        self.lookup = lookup
        self.about = about

    def read(self, text: str) -> object:
        """The value; raises ValueError."""
        raise NotImplementedError

    def apply(self, queryset: Rows, value: object) -> Rows:
        """The rows that the value selects."""
        if callable(self.lookup):
            return self.lookup(queryset, value)
        return queryset.filter(**{self.lookup: value}) if self.lookup else queryset


class FieldFilter(Filter):
    """A filter whose value is that of a serializer field."""

    field: serializers.Field

    def read(self, text: str) -> object:
        try:
            return self.field.run_validation(self.parse(text))
        except serializers.ValidationError:
            raise ValueError from None

    def parse(self, text: str) -> object:
        """The text as the field takes it; raises ValueError."""
        return text


class IntegerFilter(FieldFilter):
    """An id."""

    expected = "a whole number"
    schema = {"type": "integer", "format": "int64", "minimum": 0, "maximum": MAX_ID}
    field = fields.Id()


class BooleanFilter(FieldFilter):
    expected = "true or false"
    schema = {"type": "boolean"}
    field = fields.Boolean()

    def parse(self, text: str) -> object:
        return {"true": True, "false": False}.get(text, text)


class TextFilter(FieldFilter):
    expected = f"a text of at most {MAX_TEXT_LENGTH} characters without NUL"
    schema = {"type": "string", "maxLength": MAX_TEXT_LENGTH, "pattern": WITHOUT_NUL}
    field = fields.Text(max_length=MAX_TEXT_LENGTH, allow_blank=True)


class ChoiceFilter(FieldFilter):
    """One of a few texts; a misspelt one is refused, as its empty result would look as if there were no rows."""

    def __init__(self, lookup: Lookup, values: Iterable[str], about: str = "") -> None:
        super().__init__(lookup, about)
        self.field = field = fields.Choice(list(values))
        self.expected = f"one of {', '.join(field.values)}"
        self.schema = field.schema


class DateTimeFilter(FieldFilter):
    """A date-time in any offset, UTC if it has none."""

    expected = "an ISO 8601 date-time"
    schema = {"type": "string", "format": "date-time"}
    field = fields.DateTime()

    def parse(self, text: str) -> object:
        # An unescaped plus sign arrives as a blank.
        moment = re.sub(r" (?=\d\d(:?\d\d)?\Z)", "+", text) if "T" in text else text
        datetime.fromisoformat(moment)  # the field also takes dates that are not of ISO 8601
        return moment


def read_parameters(parameters: QueryDict, filters: Mapping[str, Filter | None]) -> dict[str, Any]:
    """The values of the filters in the query; raises ValidationError naming the wrong parameter.

    A name whose filter is None is allowed and not read here.
    """
    refuse_unknown(parameters, filters)
    pairs = ((name, filters[name]) for name in parameters)
    values = {name: _read(name, kind, str(parameters[name])) for name, kind in pairs if kind is not None}
    _check_period(values.get("start"), values.get("end"))
    return values


def refuse_unknown(parameters: QueryDict, names: Iterable[str]) -> None:
    """Raise ValidationError for a query parameter that has none of these names, or that is repeated."""
    for name, values in parameters.lists():
        if name not in names:
            raise ValidationError(f"unknown query parameter. {list_names(names)}", parameter=name[:100])
        if len(values) > 1:
            raise ValidationError("appears more than once in the query.", parameter=name)


def _check_period(start: object, end: object) -> None:
    """Refuse a period of which no row can be: its empty result would look as if there were none."""
    if isinstance(start, datetime) and isinstance(end, datetime) and not start < end:
        raise ValidationError("must be before the end.", parameter="start")


def _read(name: str, kind: Filter, text: str) -> object:
    try:
        return kind.read(text)
    except (ValueError, KeyError, OverflowError):
        raise ValidationError(f"must be {kind.expected}.", parameter=name) from None
