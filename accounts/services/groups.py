"""Every change to groups, their members and admins."""

from collections.abc import Collection
from types import EllipsisType

from django.db.models import Q, QuerySet

from accounts.group_tree import MAX_DEPTH, depth, with_ancestors
from accounts.models import Group, User, UserKind
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row, lock_row_for_change, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict, NotFound, ValidationError


@guarded_change(Access.CALLERS)
def create_group(
    *,
    name: str,
    member_ids: Collection[int] = (),
    admin_ids: Collection[int] = (),
    parent_id: int | None = None,
    external_id: str = "",
) -> Group:
    """Create a group of these users; raises Conflict if the name exists, and ValidationError."""
    group = Group(name=name, external_id=external_id)
    if parent_id is not None:
        _set_parent(group, parent_id)
    _save_group(group)
    group.members.set(rows_by_id(_eligible_members(group), member_ids, field="members"))
    _set_admins(group, admin_ids)
    return group


@guarded_change(Access.CALLERS)
def update_group(
    group: Group,
    *,
    name: str | None = None,
    member_ids: Collection[int] | None = None,
    admin_ids: Collection[int] | None = None,
    parent_id: int | EllipsisType | None = ...,
    external_id: str | None = None,
) -> None:
    """Store a new name, other sets of members and of admins, and another parent, where given.

    The service accounts of the group stay members, listed or not. Whoever is no member any more is no admin.
    Raises Conflict, NotFound and ValidationError.
    """
    lock_row_for_change(group, Group.objects.all())
    if parent_id is not ... and parent_id != group.parent_id:
        _set_parent(group, parent_id)
        _save_group(group)
    if name is not None or external_id is not None:
        group.name = group.name if name is None else name
        group.external_id = group.external_id if external_id is None else external_id
        _save_group(group)
    if member_ids is not None:
        members = rows_by_id(_eligible_members(group), member_ids, field="members")
        group.members.set({*members, *group.service_accounts.live()})
        group.admins.remove(*group.admins.exclude(groups=group))
    if admin_ids is not None:
        _set_admins(group, admin_ids)


def _set_parent(group: Group, parent_id: int | None) -> None:
    """Put a group below another one, without saving it; raises ValidationError, also for a circle."""
    # All groups are locked, because two changes at the same time could make a circle.
    parents = dict(Group.objects.select_for_update(no_key=True).order_by("pk").values_list("pk", "parent_id"))
    above = {child: parent for child, parent in parents.items() if parent is not None and child != group.pk}
    if parent_id is None:
        group.parent = None
        return
    (group.parent,) = rows_by_id(Group.objects.all(), [parent_id], field="parent_id")
    ancestors = with_ancestors([parent_id], above)
    if group.pk in ancestors:
        raise ValidationError("must not be the group itself or a group below it.", field="parent_id")
    if len(ancestors) + (depth(group.pk, above) if group.pk else 1) > MAX_DEPTH:
        raise ValidationError(f"must not make more than {MAX_DEPTH} levels of groups.", field="parent_id")


def _set_admins(group: Group, user_ids: Collection[int]) -> None:
    group.admins.set(rows_by_id(_eligible_admins(group), user_ids, field="admins"))


@guarded_change(Access.CALLERS)
def add_member(group: Group, *, user_id: int, is_admin: bool | None = None) -> User:
    """Add a member, who may be one already, and say whether they are an admin (None: as before); returns the user.

    Raises NotFound and ValidationError, also for a service account as an admin.
    """
    lock_row_for_change(group, Group.objects.all())
    (user,) = rows_by_id(_eligible_members(group), [user_id], field="id")
    if not group.members.contains(user):
        group.members.add(user)
        group.admins.remove(user)
    if is_admin:
        if user.is_service:
            raise ValidationError("must not be true for a service account, which never logs in.", field="admin")
        group.admins.add(user)
    elif is_admin is not None:
        group.admins.remove(user)
    return user


@guarded_change(Access.CALLERS)
def remove_member(group: Group, *, user_id: int) -> User:
    """Remove a member and return the user; raises NotFound, and Conflict for a service account of the group."""
    member = group.members.filter(pk=user_id).first()
    if member is None:
        raise NotFound(f"The group has no member with the id {user_id}.")
    if member.owning_group_id == group.pk and not member.is_deleted:
        raise Conflict(f"{member.username!r} is a service account of this group. Delete it, or give it another group.")
    group.members.remove(member)
    group.admins.remove(member)
    return member


@guarded_change(Access.CALLERS, Access.RULES)
def delete_group(group: Group) -> None:
    """Delete a group; its rules stay and are for nobody, its limits are deleted.

    Raises NotFound, and Conflict if it owns service accounts or has groups below it.
    """
    # Locked first, as in update_group(): a transaction that is about to refer to the row waits and finds it deleted.
    lock_row(group, Group.objects.all())
    if names := list(group.service_accounts.live().order_by("username").values_list("username", flat=True)[:10]):
        raise Conflict(
            f"This group owns service accounts ({', '.join(names)}). Delete them, or give them another group."
        )
    if names := list(group.children.order_by("name").values_list("name", flat=True)[:10]):
        raise Conflict(f"There are groups below this one ({', '.join(names)}). Delete or move them first.")
    group.delete()


def _eligible_members(group: Group) -> QuerySet[User]:
    """The users who may be members: not deleted, or members already, so that other changes of the group succeed."""
    return User.objects.filter(Q(is_deleted=False) | Q(groups=group)).distinct()


def _eligible_admins(group: Group) -> QuerySet[User]:
    return User.objects.filter(groups=group, kind=UserKind.PERSON)


def _save_group(group: Group) -> None:
    save_or_refuse(group, conflict=f"A group named {group.name!r} exists already.")
