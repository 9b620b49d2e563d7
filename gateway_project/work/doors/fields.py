"""Typed reading of a request's fields: each says by its name what is wrong with it."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway_project.errors import ValidationError
from providers.formats.translated import TOOLS_PREFIX

Check = Callable[[Any, str], Any]
# Some of what is sent on is multiplied before, as a float that holds no integer of any size; seeds have 64 bits.
LEAST, MOST = -(2**63), 2**63 - 1


def wrong(where: str, must: str) -> ValidationError:
    """The error for the field at a place, such as `messages[0].role`."""
    return ValidationError(f"{where} must be {must}.", field=where)


def text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise wrong(where, "a string")
    return value


def filled(value: Any, where: str) -> str:
    """A string that says something."""
    if type(value) is not str or not value:
        raise wrong(where, "a non-empty string")
    return value


def whole(value: Any, where: str) -> int:
    if type(value) is not int or not LEAST <= value <= MOST:
        raise wrong(where, "a whole number of at most 64 bits")
    return value


def positive(value: Any, where: str) -> int:
    if type(value) is not int or not 1 <= value <= MOST:
        raise wrong(where, "a whole number from 1 on, of at most 64 bits")
    return value


def number(value: Any, where: str) -> float:
    if type(value) is not float and (type(value) is not int or not LEAST <= value <= MOST):
        raise wrong(where, "a number of at most 64 bits")
    return value


def boolean(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise wrong(where, "true or false")
    return value


def mapping(value: Any, where: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise wrong(where, "an object")
    return value


def items(value: Any, where: str) -> list[dict[str, Any]]:
    """A list of objects."""
    if type(value) is not list or not all(type(item) is dict for item in value):
        raise wrong(where, "a list of objects")
    return value


def texts(value: Any, where: str) -> list[str]:
    """A string, or a list of them."""
    if type(value) is str:
        return [value]
    if type(value) is not list or not all(type(item) is str for item in value):
        raise wrong(where, "a string or a list of strings")
    return value


def one_of(*allowed: str) -> Check:
    """A check that lets these strings pass."""

    def check(value: Any, where: str) -> str:
        if type(value) is not str or value not in allowed:
            raise wrong(where, f"one of {', '.join(allowed)}")
        return value

    return check


def given(body: dict[str, Any], name: str, check: Check, where: str, default: Any = None) -> Any:
    """The field's value once it is checked; absent and null are the default."""
    value = body.get(name)
    return default if value is None else check(value, f"{where}.{name}" if where else name)


def needed(body: dict[str, Any], name: str, check: Check, where: str) -> Any:
    """The same for a field that may not be absent."""
    return check(body.get(name), f"{where}.{name}" if where else name)


def fill(target: Any, body: dict[str, Any], parameters: Mapping[str, tuple[str, Check]]) -> None:
    """Set the attributes of `target` that the parameters name, from those that the body gives."""
    for name, (attribute, check) in parameters.items():
        value = body.get(name)
        if value is not None:
            setattr(target, attribute, check(value, name))


def rest(body: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """The parameters that nobody knows; null asks for nothing.

    None of them may have a name under which unknown kinds of tools are put among them. Raises ValidationError.
    """
    found = {name: value for name, value in body.items() if name not in known and value is not None}
    if strange := next((name for name in found if name.startswith(TOOLS_PREFIX)), ""):
        raise ValidationError(f"{strange} is no parameter: tools are in the list tools.", field=strange)
    return found
