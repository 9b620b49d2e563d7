"""Users and groups as SCIM resources: how each is listed, read, created, replaced, patched and deleted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import QuerySet
from scim2_models import Context, NotFoundException, UniquenessException

from accounts import services
from accounts.models import Group, User, UserKind
from accounts.scim import queries
from accounts.scim.operations import MAX_ID_DIGITS, GroupChange, patch_user, read_group, read_group_patch, read_user
from accounts.scim.resources import (
    POLICY,
    ScimUser,
    Selection,
    group_document,
    user_document,
)
from accounts.scim.services import change_members, restore_user
from accounts.viewsets import UserViewSet
from gateway_project.api import audit
from gateway_project.database.saving import lock_row_for_change
from gateway_project.errors import Conflict
from gateway_project.json_types import JsonObject

Row = TypeVar("Row", User, Group)
# Of all groups in one answer: pages of groups with more are shorter.
MAX_MEMBERS_IN_LIST = 20_000


@contextmanager
def names_as_unique() -> Iterator[None]:
    """Around the creation of a row: a Conflict says that another request has taken the name in the meantime."""
    try:
        yield
    except Conflict as error:
        raise UniquenessException(detail=error.message) from error


class Kind(Generic[Row]):
    """One resource type; its methods raise GatewayError and SCIMException."""

    name: ClassVar[str]
    endpoint: ClassVar[str]
    resource: ClassVar[str]  # in the audit
    attributes: ClassVar[Mapping[str, queries.Attribute]]
    columns: ClassVar[Mapping[str, str]]  # the columns to sort by

    def rows(self) -> QuerySet[Row]:
        """All rows that a directory sees."""
        raise NotImplementedError

    def row(self, row_id: str) -> Row:
        """The row of an id; raises NotFoundException."""
        is_id = row_id.isascii() and row_id.isdecimal() and len(row_id) <= MAX_ID_DIGITS
        row = self.rows().filter(pk=int(row_id)).first() if is_id else None
        if row is None:
            raise NotFoundException(detail=f"No {self.name.lower()} with id {row_id[:100]}.")
        return row

    def document(self, row: Row, selection: Selection) -> JsonObject:
        """The wanted attributes of a row as it is in the database."""
        return self.documents([self.row(str(row.pk))], selection)[0]

    def documents(self, rows: list[Row], selection: Selection) -> list[JsonObject]:
        """The wanted attributes of these rows; a page may be cut."""
        raise NotImplementedError

    def create(self, payload: JsonObject) -> Row:
        raise NotImplementedError

    def replace(self, row: Row, payload: JsonObject) -> None:
        raise NotImplementedError

    def patch(self, row: Row, payload: JsonObject) -> None:
        raise NotImplementedError

    def delete(self, row: Row) -> None:
        raise NotImplementedError

    def record(self, operation: str, row_id: int, before: object = None, after: object = None) -> None:
        """Write a change to the audit."""
        verb = {"create": "created", "update": "changed", "destroy": "deleted"}[operation]
        message = f"The directory {verb} {self.resource} {row_id}."
        audit.record(
            audit.current_actor(), operation, self.resource, row_id, before=before, after=after, message=message
        )


class Users(Kind[User]):
    """People; service accounts are no business of a directory, and deleted users are gone."""

    name, endpoint, resource = "User", "Users", "users"
    attributes = queries.USER_ATTRIBUTES
    columns = {"username": "name_key", "displayname": "display_name", "id": "pk", "meta.created": "created_at"}

    def rows(self) -> QuerySet[User]:
        return User.objects.live().filter(kind=UserKind.PERSON).prefetch_related("groups")

    def documents(self, rows: list[User], selection: Selection) -> list[JsonObject]:
        return [selection.of(user_document(row)) for row in rows]

    def create(self, payload: JsonObject) -> User:
        """A new user without a password; a deleted one with the same external id is restored."""
        values = _user_values(read_user(payload, Context.RESOURCE_CREATION_REQUEST, active=True))
        external_id = values["external_id"]
        former = User.objects.filter(external_id=external_id, is_deleted=True).first() if external_id else None
        _require_free_names(values, former)
        if former is None:
            with names_as_unique():
                user = services.create_user(password=None, **values)
        else:
            restore_user(former)
            services.update_user(former, **values)
            user = former
        self.record("create", user.pk, after=_audited_user(user))
        return user

    def replace(self, row: User, payload: JsonObject) -> None:
        services.lock_user(row)
        self._change(row, read_user(payload, Context.RESOURCE_REPLACEMENT_REQUEST, active=row.is_active))

    def patch(self, row: User, payload: JsonObject) -> None:
        services.lock_user(row)
        resource = ScimUser.model_validate(user_document(row), scim_policy=POLICY)
        patch_user(resource, payload)
        self._change(row, resource)

    def _change(self, row: User, resource: ScimUser) -> None:
        values = {name: value for name, value in _user_values(resource).items() if getattr(row, name) != value}
        if not values:
            return
        _require_free_names(values, row)
        before = _audited_user(row)
        services.update_user(row, **values)
        self.record("update", row.pk, before, _audited_user(row))

    def delete(self, row: User) -> None:
        before = _audited_user(row)
        services.delete_user(row)
        self.record("destroy", row.pk, before, _audited_user(row))


def _user_values(resource: ScimUser) -> JsonObject:
    """The columns of a user with the values of a resource."""
    return {
        "username": User.normalize_username(resource.user_name or ""),
        "display_name": resource.display_name or "",
        "email": (resource.emails[0].value if resource.emails else None) or "",
        "is_active": True if resource.active is None else resource.active,
        "external_id": resource.external_id or "",
    }


def _require_free_names(values: Mapping[str, Any], own: User | None) -> None:
    """Raise UniquenessException if another user, deleted or not, has this name or external id."""
    others = User.objects.exclude(pk=own.pk) if own else User.objects.all()
    if "username" in values and (other := others.with_username(values["username"]).first()):
        whose = "a deleted user, who keeps the name" if other.is_deleted else "another user"
        raise UniquenessException(detail=f"userName: {values['username']!r} is already the name of {whose}.")
    if values.get("external_id") and others.filter(external_id=values["external_id"]).exists():
        raise UniquenessException(detail=f"externalId: {values['external_id']!r} is already the id of another user.")


def _audited_user(user: User) -> JsonObject:
    return {**(UserViewSet.serialize_row(user) or {}), "externalId": user.external_id}


class Groups(Kind[Group]):
    """All groups; only people are shown as members."""

    name, endpoint, resource = "Group", "Groups", "groups"
    attributes = queries.GROUP_ATTRIBUTES
    columns = {"displayname": "name", "id": "pk"}

    def rows(self) -> QuerySet[Group]:
        return Group.objects.all()

    def documents(self, rows: list[Group], selection: Selection) -> list[JsonObject]:
        members = _members(rows) if selection.includes("members") else {}
        if members:
            rows = [row for row in rows if row.pk in members]
        return [selection.of(group_document(row, members.get(row.pk, ()))) for row in rows]

    def create(self, payload: JsonObject) -> Group:
        change = read_group(payload, Context.RESOURCE_CREATION_REQUEST)
        _require_free_group(change, None)
        with names_as_unique():
            group = services.create_group(name=change.name or "", external_id=change.external_id or "")
        added, _ = change_members(group, joining=change.members or (), leaving=())
        self.record("create", group.pk, after=_audited_group(group, added, []))
        return group

    def replace(self, row: Group, payload: JsonObject) -> None:
        self._change(row, read_group(payload, Context.RESOURCE_REPLACEMENT_REQUEST))

    def patch(self, row: Group, payload: JsonObject) -> None:
        self._change(row, read_group_patch(payload))

    def _change(self, row: Group, change: GroupChange) -> None:
        lock_row_for_change(row, Group.objects.all())
        _require_free_group(change, row)
        before, (name, external_id) = _audited_group(row, [], []), _changed_names(row, change)
        if is_renamed := name is not None or external_id is not None:
            services.update_group(row, name=name, external_id=external_id)
        added, removed = change_members(row, joining=change.joining, leaving=change.leaving, members=change.members)
        if is_renamed or added or removed:
            self.record("update", row.pk, before, _audited_group(row, added, removed))

    def delete(self, row: Group) -> None:
        before, row_id = _audited_group(row, [], []), row.pk
        services.delete_group(row)
        self.record("destroy", row_id, before)


def _changed_names(row: Group, change: GroupChange) -> tuple[str | None, str | None]:
    """The new name and the new external id; None where the group has it already."""
    name = None if change.name == row.name else change.name
    return name, None if change.external_id == row.external_id else change.external_id


def _require_free_group(change: GroupChange, own: Group | None) -> None:
    """Raise UniquenessException if another group has this name or external id."""
    others = Group.objects.exclude(pk=own.pk) if own else Group.objects.all()
    if change.name is not None and others.filter(name=change.name).exists():
        raise UniquenessException(detail=f"displayName: {change.name!r} is already the name of another group.")
    if change.external_id and others.filter(external_id=change.external_id).exists():
        raise UniquenessException(detail=f"externalId: {change.external_id!r} is already the id of another group.")


def _audited_group(group: Group, added: list[int], removed: list[int]) -> JsonObject:
    """A group in the audit, without the members who stay: it can have thousands."""
    members = {"membersAdded": added, "membersRemoved": removed}
    changes = {name: ids for name, ids in members.items() if ids}
    return {"id": group.pk, "name": group.name, "externalId": group.external_id, **changes}


def _members(rows: list[Group]) -> dict[int, list[tuple[int, str]]]:
    """The ids and names of the people in each group, of as many groups as one answer takes, at least one."""
    group_ids = _ids_that_fit(rows) if len(rows) > 1 else [row.pk for row in rows]
    people = Group.members.through.objects.filter(user__is_deleted=False, user__kind=UserKind.PERSON)
    memberships = people.filter(group__in=group_ids).order_by("group_id", "user_id")
    pairs = memberships.values_list("group_id", "user_id", "user__username")
    members: dict[int, list[tuple[int, str]]] = {group_id: [] for group_id in group_ids}
    for group_id, triples in groupby(pairs, itemgetter(0)):
        members[group_id] = [(user_id, name) for _, user_id, name in triples]
    return members


def _ids_that_fit(rows: list[Group]) -> list[int]:
    """The ids of the first groups that have MAX_MEMBERS_IN_LIST members together, at least of one."""
    groups = Group.objects.filter(pk__in=[row.pk for row in rows]).with_size()
    sizes = {group.pk: group.size for group in groups}
    totals = accumulate(sizes.get(row.pk, 0) for row in rows)
    fitting = [row.pk for row, total in zip(rows, totals, strict=True) if total <= MAX_MEMBERS_IN_LIST]
    return fitting or [rows[0].pk]


KINDS: dict[str, Kind[Any]] = {kind.endpoint: kind for kind in (Users(), Groups())}
