"""What a body asks for, in SCIM's words and in the spellings of Entra ID and Okta.

Their deviations: `op` in any case, `active` as a text, a value without a path whose keys are paths, e-mail addresses by
type, members to remove in the value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from scim2_models import (
    Context,
    InvalidPathException,
    InvalidValueException,
    MutabilityException,
    NoTargetException,
    PatchOp,
)

from accounts.scim.resources import POLICY, ScimGroup, ScimUser, without_schema
from gateway_project.errors import PayloadTooLarge
from gateway_project.json_types import JsonObject

MAX_OPERATIONS, MAX_PATH_LENGTH, MAX_ID_DIGITS = 1000, 500, 18
OPERATIONS = ("add", "remove", "replace")
SERVER_OWNED = ("id", "schemas", "meta")  # in a value without a path: clients send back what they have read
EMAIL_PATH = re.compile(r'emails(?:\[(?:type eq "(?P<type>\w*)"|primary eq (?P<primary>\w+))\])?(?:\.value)?\Z', re.I)
MEMBER_PATH = re.compile(r'members\[\s*value\s+eq\s+"(?P<id>[^"]*)"\s*\]\Z', re.I)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a PATCH; the path is empty for the resource itself."""

    op: str
    path: str
    value: object = None
    has_value: bool = False

    def document(self) -> JsonObject:
        """As SCIM writes it."""
        path = {"path": self.path} if self.path else {}
        return {"op": self.op, **path, **({"value": self.value} if self.has_value else {})}


def read_operations(payload: JsonObject) -> list[Operation]:
    """The operations of a PATCH; of a value without a path, one for each of its keys.

    Raises InvalidValueException, and PayloadTooLarge for more than MAX_OPERATIONS.
    """
    entries = _member(payload, "operations")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidValueException(detail="Operations must be a list of one or more operations.")
    if len(entries) > MAX_OPERATIONS:
        raise PayloadTooLarge(f"A PATCH has at most {MAX_OPERATIONS:,} operations.")
    operations = [operation for entry in entries for operation in _split_by_path(_read_operation(entry))]
    if len(operations) > MAX_OPERATIONS:
        raise PayloadTooLarge(f"A PATCH has at most {MAX_OPERATIONS:,} operations.")
    return operations


def _read_operation(entry: JsonObject) -> Operation:
    op, path = _member(entry, "op"), _member(entry, "path")
    if not isinstance(op, str) or op.lower() not in OPERATIONS:
        raise InvalidValueException(detail="op must be add, remove or replace.")
    if path is not None and (not isinstance(path, str) or len(path) > MAX_PATH_LENGTH):
        raise InvalidPathException(detail=f"path must be a text of at most {MAX_PATH_LENGTH} characters.")
    has_value = any(name.lower() == "value" for name in entry)
    return Operation(op.lower(), without_schema(path or ""), _member(entry, "value"), has_value)


def _split_by_path(operation: Operation) -> Iterator[Operation]:
    if operation.path or operation.op == "remove" or not isinstance(operation.value, dict):
        yield operation
        return
    for name, value in operation.value.items():
        if name.lower() in SERVER_OWNED:
            continue
        if len(name) > MAX_PATH_LENGTH:
            raise InvalidPathException(detail=f"A path has at most {MAX_PATH_LENGTH} characters.")
        yield Operation(operation.op, without_schema(name), value, True)


def _member(document: JsonObject, name: str) -> object:
    """A member of an object, whose names are the same in any case."""
    return next((value for key, value in document.items() if key.lower() == name), None)


# -- Users ----------------------------------------------------------------------------------------------------------


def read_user(payload: JsonObject, context: Context, *, active: bool) -> ScimUser:
    """A whole user of a request; `active` applies if the request does not say."""
    prepared = {name: value for name, value in payload.items() if name.lower() not in ("emails", "displayname", "name")}
    prepared["displayName"] = _member(payload, "displayname") or _full_name(_member(payload, "name"))
    prepared["emails"] = _one_email(_member(payload, "emails"))
    if _member(payload, "active") is None:
        prepared = {name: value for name, value in prepared.items() if name.lower() != "active"} | {"active": active}
    return ScimUser.model_validate(prepared, scim_ctx=context, scim_policy=POLICY)


def _full_name(name: object) -> str | None:
    """The full name of a user whose directory sends only its parts."""
    if not isinstance(name, dict):
        return None
    parts = [_member(name, part) for part in ("givenname", "familyname")]
    full_name = _member(name, "formatted") or " ".join(part for part in parts if isinstance(part, str) and part)
    return full_name if isinstance(full_name, str) and full_name else None


def _one_email(value: object) -> object:
    """Of several e-mail addresses the primary one, else the one for work, else the first."""
    if isinstance(value, dict | str):
        value = [value]
    if not isinstance(value, list):
        return value
    entries = [{"value": entry} if isinstance(entry, str) else entry for entry in value]
    if not all(isinstance(entry, dict) for entry in entries):
        raise InvalidValueException(detail="emails must be a list of objects with a value.")
    entries.sort(key=_email_rank)
    return [{"value": _member(entry, "value")} for entry in entries[:1]]


def _email_rank(entry: JsonObject) -> int:
    if str(_member(entry, "primary")).lower() == "true":
        return 0
    return 1 if str(_member(entry, "type")).lower() == "work" else 2


def patch_user(user: ScimUser, payload: JsonObject) -> None:
    """Apply a PATCH to a user; raises SCIMException and pydantic's ValidationError."""
    all_operations = read_operations(payload)
    is_emptied = any(operation.op == "remove" and EMAIL_PATH.match(operation.path) for operation in all_operations)
    has_email = bool(user.emails) and not is_emptied
    relevant = (one for operation in all_operations for one in _for_one_email(operation, has_email=has_email))
    operations = [operation.document() for operation in relevant]
    if not operations:
        return
    message = {"schemas": _member(payload, "schemas") or [], "Operations": operations}
    patch = PatchOp[ScimUser].model_validate(message, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY)
    patch.patch(user, scim_policy=POLICY)


def _for_one_email(operation: Operation, *, has_email: bool) -> Iterator[Operation]:
    """The operation, as far as it is about the single e-mail address that a user has here: primary, or for work.

    For a user without an address, an address of another type counts, too.
    """
    place = EMAIL_PATH.match(operation.path)
    if place is None:
        yield Operation(operation.op, operation.path, _scalar(operation.value), operation.has_value)
    elif operation.op == "remove":
        yield operation
    elif (place["type"] or "work").lower() == "work" and (place["primary"] or "true").lower() == "true":
        value = _emails_for_work(operation.value) if has_email else operation.value
        if value or not operation.value:
            yield Operation("replace", "emails", _one_email(value), operation.has_value)


def _emails_for_work(value: object) -> object:
    """The addresses that are primary, for work, or of no type."""
    entries = [value] if isinstance(value, dict) else value
    if not isinstance(entries, list):
        return value
    return [entry for entry in entries if not isinstance(entry, dict) or _is_for_work(entry)]


def _is_for_work(entry: JsonObject) -> bool:
    return _email_rank(entry) < 2 or _member(entry, "type") is None


def _scalar(value: object) -> object:
    """The value of `[{"value": …}]`, which older versions of Entra ID send for attributes with one value."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and "value" in value[0]:
        return value[0]["value"]
    return value


# -- Groups ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class GroupChange:
    """What is to change in a group: its name and external id, if not None, and who joins and leaves.

    `members` are all there shall be before anybody joins or leaves; None for those that there are.
    """

    name: str | None = None
    external_id: str | None = None
    members: set[int] | None = None
    joining: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)

    def join(self, user_ids: set[int]) -> None:
        self.joining |= user_ids
        self.leaving -= user_ids

    def leave(self, user_ids: set[int]) -> None:
        self.leaving |= user_ids
        self.joining -= user_ids

    def replace(self, user_ids: set[int]) -> None:
        self.members, self.joining, self.leaving = user_ids, set(), set()


def read_group(payload: JsonObject, context: Context) -> GroupChange:
    """A whole group of a request, as the change that makes a group like it."""
    group = ScimGroup.model_validate(payload, scim_ctx=context, scim_policy=POLICY)
    members = {_user_id(member.value) for member in group.members or ()}
    return GroupChange(name=group.display_name, external_id=group.external_id or "", members=members)


def read_group_patch(payload: JsonObject) -> GroupChange:
    """What a PATCH of a group changes; its members are not read for that, however many they are.

    Raises SCIMException. Attributes that groups do not have are left out.
    """
    change = GroupChange()
    for operation in read_operations(payload):
        _apply(operation, change)
    return change


def _apply(operation: Operation, change: GroupChange) -> None:
    path = operation.path.lower()
    if path.startswith("members"):
        _apply_to_members(operation, change)
    elif path == "displayname":
        change.name = _text(operation, "")
        if not change.name:
            raise MutabilityException(detail="displayName is required.")
    elif path == "externalid":
        change.external_id = _text(operation, "")
    elif path.partition(".")[0] in SERVER_OWNED:
        raise MutabilityException(detail=f"{operation.path} is read-only.")
    elif not path and operation.op == "remove":
        raise NoTargetException(detail="A remove operation needs a path.")
    elif not path:
        raise InvalidValueException(detail="An operation without a path needs an object as its value.")
    elif not re.fullmatch(r"[\w$:.\-]+(\[.*\](\.\w+)?)?", path):
        raise InvalidPathException(detail=f"{operation.path!r} is not the path of an attribute.")


def _text(operation: Operation, default: str) -> str:
    value = _scalar(operation.value)
    if operation.op == "remove" or value is None:
        return default
    if not isinstance(value, str):
        raise InvalidValueException(detail=f"{operation.path} must be a text.")
    return value


def _apply_to_members(operation: Operation, change: GroupChange) -> None:
    place = MEMBER_PATH.match(operation.path)
    if place and operation.op == "remove":
        if place["id"].isdecimal():
            change.leave({_user_id(place["id"])})
        return
    if operation.path.lower() != "members":
        raise InvalidPathException(
            detail='The path of members must be members, or members[value eq "…"] to remove one.'
        )
    if operation.op == "add":
        change.join(_user_ids(operation.value))
    elif operation.op == "replace" and not operation.has_value:
        raise InvalidValueException(detail="members: replace needs a value, the list of all members.")
    elif operation.op == "replace":
        change.replace(set() if operation.value is None else _user_ids(operation.value))
    elif operation.value is None:
        change.replace(set())  # a remove operation without a value is about all of them
    else:
        change.leave(_user_ids(operation.value))


def _user_ids(value: object) -> set[int]:
    entries = value if isinstance(value, list) else [value]
    return {_user_id(_member(entry, "value") if isinstance(entry, dict) else entry) for entry in entries}


def _user_id(text: object) -> int:
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal() or len(text) > MAX_ID_DIGITS:
        raise InvalidValueException(detail="members: each value must be the id of a user.")
    return int(text)
