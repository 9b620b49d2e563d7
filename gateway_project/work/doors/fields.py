"""Typed reading of a request's fields: an error names the field and says what it must be."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar, overload

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.translated import TOOLS_PREFIX

ValueT = TypeVar("ValueT")
DefaultT = TypeVar("DefaultT")
# Takes a value and its place in the body; returns the value, which has the right type, or raises ValidationError.
Check: TypeAlias = Callable[[object, str], ValueT]
# Some numbers are multiplied before they are sent on, as floats, which cannot hold every integer; seeds have 64 bits.
LEAST, MOST = -(2**63), 2**63 - 1


def invalid_field(where: str, must: str) -> ValidationError:
    """The error for a field, which is named by its place in the body, such as `messages[0].role`."""
    return ValidationError(f"{where} must be {must}.", field=where)


def text(value: object, where: str) -> str:
    if type(value) is not str:
        raise invalid_field(where, "a string")
    return value


def non_empty(value: object, where: str) -> str:
    """A string that is not empty."""
    if type(value) is not str or not value:
        raise invalid_field(where, "a non-empty string")
    return value


def integer(value: object, where: str) -> int:
    if type(value) is not int or not LEAST <= value <= MOST:
        raise invalid_field(where, "a whole number of at most 64 bits")
    return value


def positive(value: object, where: str) -> int:
    if type(value) is not int or not 1 <= value <= MOST:
        raise invalid_field(where, "a whole number of at least 1 and at most 64 bits")
    return value


def number(value: object, where: str) -> float:
    if type(value) is not float and (type(value) is not int or not LEAST <= value <= MOST):
        raise invalid_field(where, "a number of at most 64 bits")
    return value


def boolean(value: object, where: str) -> bool:
    if type(value) is not bool:
        raise invalid_field(where, "true or false")
    return value


def mapping(value: object, where: str) -> JsonObject:
    if type(value) is not dict:
        raise invalid_field(where, "an object")
    return value


def items(value: object, where: str) -> list[JsonObject]:
    """A list of objects."""
    if type(value) is not list or not all(type(item) is dict for item in value):
        raise invalid_field(where, "a list of objects")
    return value


def texts(value: object, where: str) -> list[str]:
    """A string, or a list of them."""
    if type(value) is str:
        return [value]
    if type(value) is not list or not all(type(item) is str for item in value):
        raise invalid_field(where, "a string or a list of strings")
    return value


def one_of(*allowed: str) -> Check[str]:
    """A check that accepts only these strings."""

    def check(value: object, where: str) -> str:
        if type(value) is not str or value not in allowed:
            raise invalid_field(where, f"one of {', '.join(allowed)}")
        return value

    return check


@overload
def optional(body: JsonObject, name: str, check: Check[ValueT], where: str) -> ValueT | None: ...


@overload
def optional(body: JsonObject, name: str, check: Check[ValueT], where: str, default: DefaultT) -> ValueT | DefaultT: ...


def optional(body: JsonObject, name: str, check: Check[object], where: str, default: object = None) -> object:
    """The field's value once it is checked; absent and null are the default."""
    value = body.get(name)
    return default if value is None else check(value, f"{where}.{name}" if where else name)


def required(body: JsonObject, name: str, check: Check[ValueT], where: str) -> ValueT:
    """The same for a field that may not be absent."""
    return check(body.get(name), f"{where}.{name}" if where else name)


def read_parameters(target: object, body: JsonObject, parameters: Mapping[str, tuple[str, Check[object]]]) -> None:
    """Set the attributes of `target` that the parameters name, from those that the body has."""
    for name, (attribute, check) in parameters.items():
        value = body.get(name)
        if value is not None:
            setattr(target, attribute, check(value, name))


def unknown_parameters(body: JsonObject, names: frozenset[str]) -> JsonObject:
    """The parameters that are not among these names; null asks for nothing.

    None of them may have a name under which tools of unknown types are put among them. Raises ValidationError.
    """
    unknown = {name: value for name, value in body.items() if name not in names and value is not None}
    if reserved := next((name for name in unknown if name.startswith(TOOLS_PREFIX)), ""):
        raise ValidationError(f"{reserved} is not a parameter: put tools into the list tools.", field=reserved)
    return unknown


def unread_members(value: JsonObject, names: frozenset[str], where: str) -> JsonObject:
    """The members of an object that are not among these names, under their paths; null asks for nothing."""
    return {f"{where}.{name}": one for name, one in value.items() if name not in names and one is not None}
