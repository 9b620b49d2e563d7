"""A draft, as a document: rows as in their create, with the `id` of one that each replaces; deletions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway_project.api.fields import Attributes
from gateway_project.api.names import camel, list_names, snake
from gateway_project.database.ids import MAX_ID
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from licensing.serializers import LimitAttributes
from providers.pricing.serializers import PriceAttributes
from rules.aliases.serializers import AliasAttributes
from rules.guardrails.serializers import GuardrailAttributes
from rules.patterns import compile_pattern
from rules.serializers import RuleAttributes

MAX_DRAFTED = 1000
RULES, ALIASES, LIMITS, PRICES, GUARDRAILS = "rules", "aliases", "limits", "prices", "guardrails"
KINDS: Mapping[str, type[Attributes]] = {
    RULES: RuleAttributes,
    ALIASES: AliasAttributes,
    LIMITS: LimitAttributes,
    PRICES: PriceAttributes,
    GUARDRAILS: GuardrailAttributes,
}


@dataclass(frozen=True, slots=True)
class RowDraft:
    """The attributes of a row; without an id it is new. `place` is where it stands in the draft."""

    id: int | None
    values: Mapping[str, Any]
    place: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """What would be changed, by kind."""

    rows: Mapping[str, tuple[RowDraft, ...]] = field(default_factory=dict)
    deletions: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def of(self, kind: str) -> tuple[RowDraft, ...]:
        """The drafted rows of a kind."""
        return self.rows.get(kind, ())

    def deleted_ids(self, kind: str) -> frozenset[int]:
        """The ids of the rows of a kind that would be deleted."""
        return self.deletions.get(kind, frozenset())

    def replaced_ids(self, kind: str) -> frozenset[int]:
        """The ids of the rows of a kind that would not be there, or be others."""
        return self.deleted_ids(kind) | {row.id for row in self.of(kind) if row.id is not None}

    def changes(self, kind: str) -> bool:
        """Whether anything of this kind would be another."""
        return bool(self.of(kind) or self.deleted_ids(kind))


def read_draft(document: object) -> Draft:
    """A draft from its document. Raises ValidationError naming the place of what is wrong."""
    if not isinstance(document, dict):
        raise ValidationError("The draft must be a JSON object.")
    members = _members(document, (*KINDS, "delete"), "")
    deletions = _members(_object(members.get("delete", {}), "delete"), tuple(KINDS), "delete.")
    return Draft({kind: _rows(members, kind) for kind in KINDS}, {kind: _ids(deletions, kind) for kind in KINDS})


def _rows(members: JsonObject, kind: str) -> tuple[RowDraft, ...]:
    rows = _array(members.get(kind, []), kind)
    return tuple(_row(row, f"{kind}[{number}]", KINDS[kind]) for number, row in enumerate(rows))


def _ids(deletions: JsonObject, kind: str) -> frozenset[int]:
    place = f"delete.{kind}"
    return frozenset(_id(row_id, place) for row_id in _array(deletions.get(kind, []), place))


def _row(row: object, place: str, kind: type[Attributes]) -> RowDraft:
    values = _object(row, place)
    row_id = _id(values.pop("id"), f"{place}.id") if "id" in values else None
    attributes = kind(data={_python_name(name, place, kind): value for name, value in values.items()})
    if not _is_valid(attributes, place):
        name, problems = next(iter(attributes.errors.items()))
        is_of_row = name == "non_field_errors"
        raise ValidationError(_first_problem(problems), field=place if is_of_row else f"{place}.{camel(name)}")
    if regex := attributes.validated_data.get("regex"):
        compile_pattern(regex, field=f"{place}.regex")
    return RowDraft(row_id, attributes.validated_data, place)


def _python_name(wire_name: str, place: str, kind: type[Attributes]) -> str:
    name = snake(wire_name)
    if name is None:
        problem = f"has the unknown attribute {wire_name[:100]!r}. {list_names(kind().writable)}"
        raise ValidationError(problem, field=place)
    return name


def _is_valid(attributes: Attributes, place: str) -> bool:
    """Whether they are; raises ValidationError for what a field has looked up in vain."""
    try:
        return attributes.is_valid()
    except ValidationError as error:
        raise ValidationError(error.message, field=f"{place}.{error.field}") from None


def _members(values: JsonObject, names: tuple[str, ...], place: str) -> JsonObject:
    for name in values:
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


def _first_problem(problems: object) -> str:
    """The first of what may be texts, lists or objects of them."""
    while isinstance(problems, list | dict) and problems:
        problems = next(iter(problems.values() if isinstance(problems, dict) else problems))
    return str(problems)
