"""The attributes of users and groups in SCIM, and rows as documents.

The models read requests, and describe themselves at /Schemas. Documents are built without them: a group has thousands
of members.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from django.conf import settings
from pydantic import Field
from scim2_models import (
    CaseExact,
    ComplexAttribute,
    GroupMembership,
    Mutability,
    Reference,
    Required,
    Resource,
    ScimPolicy,
    Uniqueness,
)
from scim2_models.urn import URN

from accounts.models import Group, User
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

ROOT = "/scim/v2"
USER_SCHEMA = URN("urn:ietf:params:scim:schemas:core:2.0:User")
GROUP_SCHEMA = URN("urn:ietf:params:scim:schemas:core:2.0:Group")
MAX_SELECTED, MAX_PATH_LENGTH = 50, 200
# Directories send many attributes that the gateway does not have, and Entra ID removes members by value.
POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)


class Email(ComplexAttribute):
    """The e-mail address of a user, who has one at most: for work, and primary."""

    value: str | None = None
    type: Annotated[str | None, Mutability.read_only] = None
    primary: Annotated[bool | None, Mutability.read_only] = None


class ScimUser(Resource[Any]):
    """A person who can use the gateway."""

    __schema__ = USER_SCHEMA

    user_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    display_name: str | None = None
    active: Annotated[bool | None, Required.true] = None
    emails: list[Email] | None = None
    groups: Annotated[list[GroupMembership] | None, Mutability.read_only] = None


class Member(ComplexAttribute):
    """A user in a group."""

    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    ref: Annotated[Reference["User"] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    type: Annotated[str | None, Mutability.read_only] = Field(None, examples=["User"])
    display: Annotated[str | None, Mutability.read_only] = None


class ScimGroup(Resource[Any]):
    """Users under one name, for rules and limits."""

    __schema__ = GROUP_SCHEMA

    display_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    members: list[Member] | None = None


ScimUser.__name__, ScimGroup.__name__ = "User", "Group"


@dataclass(frozen=True, slots=True)
class Selection:
    """The attributes that a client wants, in lower case and without a schema: `attributes`, or all but `excluded`."""

    attributes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    @classmethod
    def read(cls, attributes: str, excluded: str) -> "Selection":
        """From the texts of both parameters; raises ValidationError."""
        if attributes and excluded:
            raise ValidationError("must not be sent together with attributes.", parameter="excludedAttributes")
        return cls(_names(attributes, "attributes"), _names(excluded, "excludedAttributes"))

    def includes(self, name: str) -> bool:
        """Whether an attribute, or a part of it, is wanted."""
        name = name.lower()
        if self.attributes:
            return any(path.partition(".")[0] == name for path in self.attributes)
        return name not in self.excluded

    def of(self, document: JsonObject) -> JsonObject:
        """What is wanted of a document; its id and schemas always are."""
        return {
            name: self._part(name.lower(), value)
            for name, value in document.items()
            if name in ("id", "schemas") or self.includes(name)
        }

    def _part(self, name: str, value: object) -> object:
        """The wanted sub-attributes of a value."""
        paths = self.attributes or self.excluded
        parts = {path.partition(".")[2] for path in paths if path.startswith(f"{name}.")}
        if not parts or name in paths:
            return value
        if isinstance(value, list):
            return [self._subset(entry, parts) for entry in value]
        return self._subset(value, parts) if isinstance(value, dict) else value

    def _subset(self, entry: JsonObject, parts: set[str]) -> JsonObject:
        return {name: value for name, value in entry.items() if (name.lower() in parts) == bool(self.attributes)}


def _names(text: str, parameter: str) -> frozenset[str]:
    paths = [path.strip().lower() for path in text.split(",") if path.strip()]
    if len(paths) > MAX_SELECTED or any(len(path) > MAX_PATH_LENGTH for path in paths):
        raise ValidationError(f"must name at most {MAX_SELECTED} attributes.", parameter=parameter)
    return frozenset(without_schema(path) for path in paths)


def without_schema(path: str) -> str:
    """The path of an attribute without the URN of its schema, in the case in which it was written."""
    for schema in (USER_SCHEMA, GROUP_SCHEMA):
        if path.lower().startswith(f"{schema.lower()}:"):
            return path[len(schema) + 1 :]
    return path


def location(endpoint: str, row_id: object) -> str:
    """The URL of a resource."""
    return f"{settings.GATEWAY_BASE_URL}{ROOT}/{endpoint}/{row_id}"


def user_document(user: User) -> JsonObject:
    """A user as SCIM shows them; their groups are prefetched."""
    meta = {"resourceType": "User", "location": location("Users", user.pk), "created": moment(user.created_at)}
    document = {
        "schemas": [USER_SCHEMA],
        "id": str(user.pk),
        "externalId": user.external_id,
        "userName": user.username,
        "displayName": user.display_name,
        "active": user.is_active,
        "emails": [{"value": user.email, "type": "work", "primary": True}] if user.email else [],
        "groups": [_membership(group) for group in user.groups.all()],
        "meta": meta,
    }
    return _without_empty_attributes(document)


def group_document(group: Group, members: Iterable[tuple[int, str]]) -> JsonObject:
    """A group as SCIM shows it, with the ids and names of these members."""
    document = {
        "schemas": [GROUP_SCHEMA],
        "id": str(group.pk),
        "externalId": group.external_id,
        "displayName": group.name,
        "members": [_member(user_id, name) for user_id, name in members],
        "meta": {"resourceType": "Group", "location": location("Groups", group.pk)},
    }
    return _without_empty_attributes(document)


def moment(time: datetime) -> str:
    """As SCIM writes a time."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _member(user_id: int, name: str) -> JsonObject:
    return {"value": str(user_id), "display": name, "type": "User", "$ref": location("Users", user_id)}


def _membership(group: Group) -> JsonObject:
    reference = location("Groups", group.pk)
    return {"value": str(group.pk), "display": group.name, "type": "direct", "$ref": reference}


def _without_empty_attributes(document: JsonObject) -> JsonObject:
    """Without attributes that have no value: RFC 7643, section 2.5."""
    return {name: value for name, value in document.items() if value not in ("", [])}
