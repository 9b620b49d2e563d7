"""A draft, as a document: rules and aliases as in their create, with the `id` of one that each replaces; deletions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway_project.api.fields import MAX_ID, Attributes
from gateway_project.api.names import camel, snake
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from rules.aliases.serializers import AliasAttributes
from rules.patterns import compile_pattern
from rules.serializers import RuleAttributes

MAX_DRAFTED = 1000
KINDS: Mapping[str, type[Attributes]] = {"rules": RuleAttributes, "aliases": AliasAttributes}
# What drafts are specified to have, and a replay cannot judge yet.
NOT_YET = ("limits", "prices")


@dataclass(frozen=True, slots=True)
class RowDraft:
    """The attributes of a rule or an alias; without an id it is new."""

    id: int | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """What would be changed."""

    rules: tuple[RowDraft, ...] = ()
    aliases: tuple[RowDraft, ...] = ()
    deleted_rules: frozenset[int] = frozenset()
    deleted_aliases: frozenset[int] = frozenset()


def read_draft(document: object) -> Draft:
    """A draft from its document. Raises ValidationError naming the place of what is wrong."""
    if not isinstance(document, dict):
        raise ValidationError("The draft must be a JSON object.")
    members = _known(document, (*KINDS, "delete"), "")
    deleted = _known(_object(members.get("delete", {}), "delete"), tuple(KINDS), "delete.")
    return Draft(_rows(members, "rules"), _rows(members, "aliases"), _ids(deleted, "rules"), _ids(deleted, "aliases"))


def _rows(members: JsonObject, kind: str) -> tuple[RowDraft, ...]:
    rows = _array(members.get(kind, []), kind)
    return tuple(_row(row, f"{kind}[{number}]", KINDS[kind]) for number, row in enumerate(rows))


def _ids(deleted: JsonObject, kind: str) -> frozenset[int]:
    place = f"delete.{kind}"
    return frozenset(_id(row_id, place) for row_id in _array(deleted.get(kind, []), place))


def _row(row: object, place: str, kind: type[Attributes]) -> RowDraft:
    values = _object(row, place)
    row_id = _id(values.pop("id"), f"{place}.id") if "id" in values else None
    # A name that is none of the wire's stays as it is, and is refused as unknown.
    attributes = kind(data={snake(name) or name: value for name, value in values.items()})
    if not attributes.is_valid():
        name, problems = next(iter(attributes.errors.items()))
        raise ValidationError(_first(problems), field=f"{place}.{camel(name)}")
    if regex := attributes.validated_data.get("regex"):
        compile_pattern(regex, field=f"{place}.regex")
    return RowDraft(row_id, attributes.validated_data)


def _known(values: JsonObject, names: tuple[str, ...], place: str) -> JsonObject:
    for name in values:
        if name in NOT_YET:
            raise ValidationError("cannot be drafted yet: only rules and aliases can.", field=f"{place}{name}")
        if name not in names:
            raise ValidationError(f"is unknown; known are {', '.join(names)}.", field=f"{place}{name}")
    return values


def _object(value: object, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ValidationError("must be an object.", field=place)
    return dict(value)


def _array(value: object, place: str) -> list[object]:
    if not isinstance(value, list) or len(value) > MAX_DRAFTED:
        raise ValidationError(f"must be an array of at most {MAX_DRAFTED}.", field=place)
    return value


def _id(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_ID:
        raise ValidationError("must be an id.", field=place)
    return value


def _first(problems: object) -> str:
    return str(problems[0] if isinstance(problems, list) and problems else problems)
