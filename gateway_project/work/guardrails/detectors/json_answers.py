"""The type `json`: an answer must be JSON, or match a schema. Whole answers only."""

from collections.abc import Iterator, Mapping
from typing import Protocol

import orjson

from gateway_project.work.guardrails.detectors.base import Detector, Match
from gateway_project.work.guardrails.detectors.parameters import Parameters, invalid_parameter

MAX_SCHEMA_BYTES = 64 * 1024
MAX_SUBSCHEMAS = 2000  # with each reference counted as what it refers to
MAX_PATTERN_BYTES = 1024 * 1024
MAX_PROBLEM_LENGTH = 1000
_UNSUPPORTED = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor")


class Validator(Protocol):
    """A compiled schema; both raise ValueError for what is too deep, or a number that is too large."""

    def is_valid(self, instance: object) -> bool:
        """Whether a value matches."""

    def validate(self, instance: object) -> None:
        """Raises ValueError, which says what does not match."""


class JsonAnswer(Detector):
    """What is not JSON, or does not match the schema, is a match as a whole."""

    judges_whole_answer = True
    longest = 0

    def __init__(self, validator: Validator | None, *, repairs: bool = False) -> None:
        self._validator, self.repairs = validator, repairs

    def scan(self, text: str, start: int = 0) -> list[Match]:
        try:
            value = orjson.loads(text)
        except ValueError:
            return [Match(0, len(text), "not_json")]
        if self._validator is None or self._matches(self._validator, value):
            return []
        return [Match(0, len(text), "schema")]

    def problem(self, text: str) -> str:
        try:
            value = orjson.loads(text)
        except ValueError as error:
            return f"It is not JSON: {error}."
        try:
            if self._validator is not None:
                self._validator.validate(value)
        except ValueError as error:
            return f"It does not match the JSON schema: {str(error)[:MAX_PROBLEM_LENGTH]}"
        return ""

    def _matches(self, validator: Validator, value: object) -> bool:
        try:
            return validator.is_valid(value)
        except ValueError:  # too deep, or a number too large
            return False


def compile_json(members: Mapping[str, object]) -> JsonAnswer:
    parameters = Parameters(members, names=("schema", "repair"))
    schema, repairs = parameters.get("schema"), parameters.flag("repair", default=False)
    if schema is None:
        return JsonAnswer(None, repairs=repairs)
    if not isinstance(schema, dict):
        raise invalid_parameter("schema", "must be a JSON schema: an object.")
    _check_size(schema)
    return JsonAnswer(_validator(schema), repairs=repairs)


def _validator(schema: dict[str, object]) -> Validator:
    """Fetches nothing; its regular expressions take linear time."""
    import jsonschema_rs  # imported here: few gateways have such guardrails

    options = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=options, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise invalid_parameter("schema", f"is not a valid JSON schema: {str(error).splitlines()[0][:200]}.") from None


def _check_size(schema: dict[str, object]) -> None:
    """Refuse a schema that takes long, however short it is written."""
    try:
        size = len(orjson.dumps(schema))
    except TypeError:
        raise invalid_parameter("schema", "must not contain whole numbers beyond 64 bits.") from None
    if size > MAX_SCHEMA_BYTES:
        raise invalid_parameter("schema", f"must have at most {MAX_SCHEMA_BYTES:,} bytes.")
    if _Size(schema).of(schema, ()) > MAX_SUBSCHEMAS:
        raise invalid_parameter(
            "schema", f"must have at most {MAX_SUBSCHEMAS:,} parts, those behind references included."
        )


class _Size:
    """Counts the parts of a schema, with each reference as what it refers to."""

    def __init__(self, root: dict[str, object]) -> None:
        self._root = root
        self._sizes: dict[str, int] = {}

    def of(self, node: object, path: tuple[str, ...]) -> int:
        size = 1 + sum(self.of(child, path) for child in _children(node))
        if isinstance(node, dict):
            if unsupported := [name for name in _UNSUPPORTED if name in node]:
                raise invalid_parameter("schema", f"must not use {unsupported[0]}; use $ref.")
            if isinstance(reference := node.get("$ref"), str):
                size += self._of_reference(reference, path)
        return size

    def _of_reference(self, reference: str, path: tuple[str, ...]) -> int:
        if reference in path:
            raise invalid_parameter("schema", f"must not refer to itself: {reference}.")
        if reference not in self._sizes:
            self._sizes[reference] = self.of(self._target(reference), (*path, reference))
        return self._sizes[reference]

    def _target(self, reference: str) -> object:
        target: object = self._root
        if not reference.startswith("#/"):
            raise invalid_parameter(
                "schema", f"must refer to parts of itself only (#/$defs/name), not to {reference[:100]}."
            )
        for name in reference[2:].split("/"):
            target = target.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        if target is None:
            raise invalid_parameter("schema", f"refers to {reference[:100]}, which it does not have.")
        return target


def _children(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, list):
        yield from node
