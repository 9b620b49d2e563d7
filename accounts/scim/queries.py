"""Filters, order and pages of SCIM as questions to the database: RFC 7644, section 3.4.2."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import and_, or_

from django.db.models import F, OrderBy, Q
from scim2_models import InvalidFilterException, InvalidValueException, ScimFilter
from scim2_models.path import (
    AttrPath,
    CompareOperator,
    Comparison,
    FilterNode,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)

from accounts.models import Group, User
from accounts.scim.operations import MAX_ID_DIGITS
from accounts.scim.resources import Selection, without_schema
from gateway_project.database.names import name_key

MAX_FILTER_LENGTH, MAX_BRACKETS, MAX_CONDITIONS = 2000, 30, 50
MAX_COUNT, DEFAULT_COUNT = 200, 100
MAX_START = 10**9
ALWAYS, NEVER = Q(pk__isnull=False), Q(pk__isnull=True)
EQ, NE = CompareOperator.eq, CompareOperator.ne
STRING_LOOKUPS = {
    CompareOperator.eq: "iexact",
    CompareOperator.co: "icontains",
    CompareOperator.sw: "istartswith",
    CompareOperator.ew: "iendswith",
    CompareOperator.gt: "gt",
    CompareOperator.ge: "gte",
    CompareOperator.lt: "lt",
    CompareOperator.le: "lte",
}
EXACT_LOOKUPS = STRING_LOOKUPS | {
    CompareOperator.eq: "exact",
    CompareOperator.co: "contains",
    CompareOperator.sw: "startswith",
    CompareOperator.ew: "endswith",
}
STRING_OPERATORS = (CompareOperator.co, CompareOperator.sw, CompareOperator.ew)
# The condition of an operator other than ne, and a value.
Condition = Callable[[CompareOperator, object], Q]


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute in filters: its conditions, and when it is present."""

    condition: Condition
    present: Q = ALWAYS


def _text(column: str, lookups: Mapping[CompareOperator, str] = STRING_LOOKUPS) -> Attribute:
    return Attribute(lambda op, value: Q(**{f"{column}__{lookups[op]}": _as_string(value)}), ~Q(**{column: ""}))


def _user_name(op: CompareOperator, value: object) -> Q:
    condition = Q(**{f"name_key__{EXACT_LOOKUPS[op]}": name_key(_as_string(value))})
    return condition | Q(username=value) if op == EQ else condition


def _id(column: str) -> Condition:
    def condition(op: CompareOperator, value: object) -> Q:
        text = _as_string(value)
        if op != EQ:
            raise InvalidFilterException(detail=f"An id is compared with eq and ne, not with {op}.")
        is_id = text.isascii() and text.isdecimal() and len(text) <= MAX_ID_DIGITS
        return Q(**{column: int(text)}) if is_id else NEVER

    return condition


def _boolean(column: str) -> Condition:
    def condition(op: CompareOperator, value: object) -> Q:
        if op != EQ or not isinstance(value, bool):
            raise InvalidFilterException(detail="A Boolean is compared with eq or ne, and with true or false.")
        return Q(**{column: value})

    return condition


def _time(column: str) -> Condition:
    def condition(op: CompareOperator, value: object) -> Q:
        time = _moment(_as_string(value))
        if op in STRING_OPERATORS or time is None:
            raise InvalidFilterException(detail="A time is compared with a time like 2026-11-30T12:00:00Z.")
        return Q(**{f"{column}__{EXACT_LOOKUPS[op]}": time})

    return condition


def _moment(text: str) -> datetime | None:
    """The time in UTC; None if the text is no time, or a time that databases cannot store."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _constant(constant: object, present: Q) -> Attribute:
    """A sub-attribute that has the same value wherever it is present."""

    def condition(op: CompareOperator, value: object) -> Q:
        if op != EQ:
            raise InvalidFilterException(detail="type and primary are compared with eq and ne.")
        same = str(value).lower() == str(constant).lower()
        return present if same else NEVER

    return Attribute(condition, present)


def _member(op: CompareOperator, value: object) -> Q:
    # A query of its own: with a join, several conditions would each have to be met by the same member.
    users = User.objects.live().filter(_id("pk")(op, value), kind="person")
    return Q(pk__in=Group.members.through.objects.filter(user__in=users).values("group"))


HAS_EMAIL = ~Q(email="")
EMAIL = _text("email")
NAMES = {"id": Attribute(_id("pk")), "externalid": _text("external_id", EXACT_LOOKUPS)}
USER_ATTRIBUTES = NAMES | {
    "username": Attribute(_user_name),
    "displayname": _text("display_name"),
    "active": Attribute(_boolean("is_active")),
    "emails": EMAIL,
    "emails.value": EMAIL,
    "emails.type": _constant("work", HAS_EMAIL),
    "emails.primary": _constant(True, HAS_EMAIL),
    "meta.created": Attribute(_time("created_at")),
    "meta.resourcetype": _constant("User", ALWAYS),
}
HAS_MEMBERS = Q(pk__in=Group.members.through.objects.values("group"))
GROUP_ATTRIBUTES = NAMES | {
    "displayname": _text("name"),
    "members": Attribute(_member, HAS_MEMBERS),
    "members.value": Attribute(_member, HAS_MEMBERS),
    "meta.resourcetype": _constant("Group", ALWAYS),
}


def _as_string(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidFilterException(detail="This attribute is compared with a text in quotes, without NUL.")
    return value


class _Translation(FilterVisitor[Q]):
    """Translates the tree of a filter; `prefix` is the attribute whose values are selected, with a dot."""

    def __init__(self, attributes: Mapping[str, Attribute], prefix: str = "") -> None:
        self.attributes, self.prefix, self.conditions = attributes, prefix, 0

    def attribute(self, path: AttrPath) -> Attribute:
        self.conditions += 1
        name = self.prefix + without_schema(str(path)).lower()
        if name not in self.attributes:
            raise InvalidFilterException(detail=f"{self.prefix}{path} cannot be used in a filter.")
        if self.conditions > MAX_CONDITIONS:
            raise InvalidFilterException(detail=f"A filter has at most {MAX_CONDITIONS} conditions.")
        return self.attributes[name]

    def visit_comparison(self, node: Comparison) -> Q:
        attribute = self.attribute(node.attr_path)
        if node.value is None and node.op in (EQ, NE):
            return ~attribute.present if node.op == EQ else attribute.present
        if node.op == NE:
            return ~attribute.condition(EQ, node.value)
        return attribute.condition(node.op, node.value)

    def visit_present(self, node: Present) -> Q:
        return self.attribute(node.attr_path).present

    def visit_not(self, node: Not) -> Q:
        return ~self.visit(node.expr)

    def visit_logical_expr(self, node: LogicalExpr) -> Q:
        return reduce(and_ if node.op == LogicalOperator.and_ else or_, map(self.visit, node.terms))

    def visit_value_path(self, node: ValuePath) -> Q:
        selected = _Translation(self.attributes, f"{without_schema(str(node.attr_path)).lower()}.")
        return selected.visit(node.val_filter)


def read_filter(text: str, attributes: Mapping[str, Attribute]) -> Q:
    """The condition that a filter states; raises InvalidFilterException."""
    if not text:
        return Q()
    if len(text) > MAX_FILTER_LENGTH or text.count("(") + text.count("[") > MAX_BRACKETS:
        raise InvalidFilterException(
            detail=f"A filter has at most {MAX_FILTER_LENGTH:,} characters and {MAX_BRACKETS} brackets."
        )
    tree: FilterNode = ScimFilter(text).ast
    return _Translation(attributes).visit(tree)


@dataclass(frozen=True, slots=True)
class Query:
    """What a list shows: the rows of a filter in an order, `count` of them from the place `start` on."""

    filter: str
    start: int
    count: int
    order: tuple[OrderBy | str, ...]
    selection: Selection

    @classmethod
    def read(cls, parameters: Mapping[str, str], columns: Mapping[str, str]) -> "Query":
        """From the parameters of a request, by their names in SCIM; raises SCIMException and ValidationError."""
        return cls(
            filter=parameters.get("filter", ""),
            start=max(1, _integer(parameters, "startIndex", 1)),
            count=min(MAX_COUNT, max(0, _integer(parameters, "count", DEFAULT_COUNT))),
            order=_order(parameters, columns),
            selection=Selection.read(parameters.get("attributes", ""), parameters.get("excludedAttributes", "")),
        )


def _order(parameters: Mapping[str, str], columns: Mapping[str, str]) -> tuple[OrderBy | str, ...]:
    name, direction = parameters.get("sortBy", ""), (parameters.get("sortOrder") or "ascending").lower()
    if direction not in ("ascending", "descending"):
        raise InvalidValueException(detail="sortOrder must be ascending or descending.")
    if not name:
        return ("pk",)
    if (column := columns.get(without_schema(name).lower())) is None:
        raise InvalidValueException(detail=f"sortBy must be one of {', '.join(columns)}.")
    return (F(column).asc() if direction == "ascending" else F(column).desc(), "pk")


def _integer(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    try:
        return max(-1, min(int(text[:20]), MAX_START))
    except ValueError:
        raise InvalidValueException(detail=f"{name} must be an integer.") from None
