"""Serializer fields without type coercion: "5" is no number, and 1 is not true.

`schema` is the JSON schema of a field that drf-spectacular does not know.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Unpack

from django.utils.dateparse import parse_date, parse_datetime
from rest_framework import serializers

from gateway_project.api.names import list_names
from gateway_project.api.strict_json import has_nul
from gateway_project.database.ids import MAX_ID
from gateway_project.errors import Place, ValidationError
from gateway_project.json_types import JsonObject

DIGITS = re.compile(r"[0-9]{1,19}\Z")
MAX_REFERENCES = 10_000
PATH_ID = "An id in the path must be a whole number within 64 bits."


class Text(serializers.CharField):
    """A JSON string; blanks around it are kept."""

    def __init__(self, *, trim_whitespace: bool = False, **options: Any) -> None:
        super().__init__(trim_whitespace=trim_whitespace, **options)

    def to_internal_value(self, data: object) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a text.")
        return super().to_internal_value(data)


class Choice(Text):
    """A text out of a few."""

    def __init__(self, values: list[str], **options: Any) -> None:
        super().__init__(allow_blank="" in values, **options)
        self.values = values
        self.schema: JsonObject = {"type": "string", "enum": values}

    def to_internal_value(self, data: object) -> str:
        text = super().to_internal_value(data)
        if text not in self.values:
            raise serializers.ValidationError(f"Must be one of {', '.join(repr(value) for value in self.values)}.")
        return text


class Boolean(serializers.BooleanField):
    """true or false."""

    def to_internal_value(self, data: object) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("Must be true or false.")
        return data


class Integer(serializers.IntegerField):
    """A JSON number without a fraction; within 64 bits unless bounds are given."""

    def __init__(self, *, min_value: int = -MAX_ID - 1, max_value: int = MAX_ID, **options: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **options)

    def to_internal_value(self, data: object) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError("Must be a whole number.")
        return data


class DateTime(serializers.DateTimeField):
    """An ISO 8601 date-time, UTC where it has no offset."""

    def to_internal_value(self, value: object) -> datetime:
        if not isinstance(value, str):
            raise serializers.ValidationError("Must be an ISO 8601 date-time.")
        if not _is_in_calendar(value):
            raise serializers.ValidationError("This date or time does not exist.")
        return super().to_internal_value(value)


def _is_in_calendar(text: str) -> bool:
    """False for a well-formed date-time that does not exist, such as 30 February."""
    try:
        parse_datetime(text) or parse_date(text)
    except ValueError:
        return False
    return True


class Id(serializers.Field):
    """An id, as a number or as the text that JSON:API writes it as."""

    schema: ClassVar[JsonObject] = {
        "type": ["integer", "string"],
        "minimum": 0,
        "maximum": MAX_ID,
        "pattern": "^[0-9]{1,19}$",
    }

    def to_internal_value(self, data: object) -> int:
        text = str(data) if isinstance(data, int | str) and not isinstance(data, bool) else ""
        if not DIGITS.match(text) or int(text) > MAX_ID:
            raise serializers.ValidationError("Must be an id: a whole number.")
        return int(text)

    def to_representation(self, value: int) -> int:
        return value


class CountOrMoney(serializers.Field):
    """Only read: a count as a number, or money as text."""

    schema: ClassVar[JsonObject] = {"type": ["integer", "string"]}


class References(serializers.Field):
    """[{"id": 5}, …] as a list of ids without duplicates; other members, which lists show, are ignored."""

    schema: ClassVar[JsonObject] = {
        "type": "array",
        "items": {"type": "object", "properties": {"id": Id.schema}, "required": ["id"]},
        "maxItems": MAX_REFERENCES,
    }
    default_error_messages = {"invalid": 'Must be a list of {{"id": …}}, at most {max_length} long.'}

    def to_internal_value(self, data: object) -> list[int]:
        if not isinstance(data, list) or len(data) > MAX_REFERENCES:
            self.fail("invalid", max_length=MAX_REFERENCES)
        if not all(isinstance(element, dict) and "id" in element for element in data):
            self.fail("invalid", max_length=MAX_REFERENCES)
        return list(dict.fromkeys(Id().to_internal_value(element["id"]) for element in data))


class Read(serializers.Field):
    """A value that a function reads; its ValidationErrors name places inside of it."""

    def __init__(self, read: Callable[[object, str], object], schema: JsonObject, **options: Any) -> None:
        super().__init__(**options)
        self.read, self.schema = read, schema

    def to_internal_value(self, data: object) -> object:
        try:
            value = self.read(data, "")
        except ValidationError as error:
            path = error.field.removeprefix(".")
            raise serializers.ValidationError({path: [error.message]} if path else error.message) from None
        if has_nul(json.dumps(data)):
            raise serializers.ValidationError("Must not contain the character NUL (\\u0000).")
        return value

    def run_validation(self, data: object = serializers.empty) -> object:
        """None is a value that the function reads, too."""
        return self.to_internal_value(None) if data is None else super().run_validation(data)


class Attributes(serializers.Serializer):
    """The attributes that an operation accepts: an undeclared one is refused, never ignored."""

    # For the OpenAPI document, under the names of the wire.
    example: ClassVar[Mapping[str, object]] = {}

    @property
    def writable(self) -> list[str]:
        """The names of the attributes that may be sent, as in Python."""
        return [name for name, field in self.fields.items() if not field.read_only]

    def to_internal_value(self, data: Mapping[str, object]) -> JsonObject:
        if unknown := set(data) - set(self.writable):
            problems = dict.fromkeys(sorted(unknown), "Unknown attribute.")
            problems[min(unknown)] += f" {list_names(self.writable)}"  # once: the list may be long
            raise serializers.ValidationError(problems)
        return super().to_internal_value(data)


class NoAttributes(Attributes):
    """The operation takes no attributes."""


class Named(serializers.Serializer):
    """{"id", "name"}: how a row is shown inside another."""

    id = serializers.IntegerField()
    name = serializers.CharField()


def read_id(text: str, **place: Unpack[Place]) -> int:
    """An id from a path, or else from the `field` or the `parameter`; raises ValidationError."""
    if not DIGITS.match(text) or int(text) > MAX_ID:
        raise ValidationError("must be a whole number." if place else PATH_ID, **place)
    return int(text)
