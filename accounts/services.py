"""Every change to users, roles, features and groups; those to sessions are in sessions.py."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from types import EllipsisType
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as PasswordRefused
from django.core.validators import MaxLengthValidator
from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.builtin import ADMIN_ROLE, ROLES, USER_ROLE
from accounts.group_tree import MAX_DEPTH, depth, with_ancestors
from accounts.guessing.hashing import hashing_queue
from accounts.models import LONGEST_USERNAME, MAX_PASSWORD_LENGTH, Feature, Group, Role, User, UserKind, check_text
from accounts.sessions import end_sessions
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict, NotFound, ValidationError


@transaction.atomic
def create_user(
    *,
    username: str,
    password: str | None,
    display_name: str = "",
    email: str = "",
    roles: Collection[str] = (USER_ROLE,),
    role_ids: Collection[int] | None = None,
    is_active: bool = True,
    is_deleted: bool = False,
    external_id: str = "",
) -> User:
    """Create a user with these roles, given by id or by name; by default the role user.

    Without a password (None), no password is right until one is set.
    Raises Conflict if the name exists in any case, deleted users included, and ValidationError.
    """
    user = User(
        username=User.normalize_username(username),
        display_name=display_name,
        email=email,
        is_active=is_active,
        is_deleted=is_deleted,
        external_id=external_id,
    )
    if password is None:
        user.set_unusable_password()
    else:
        user.password = hashing_queue.hash(_validated_password(password, user))
    save_or_refuse(user, conflict=f"A user named {user.username!r} exists already; deleted users keep their names.")
    user.roles.set(_roles_named(roles) if role_ids is None else rows_by_id(Role.objects.all(), role_ids, field="roles"))
    return user


@transaction.atomic
def create_federated_user(*, username: str, roles: Collection[str] = (USER_ROLE,)) -> User:
    """Create a person without a password, who logs in with an identity provider.

    Raises Conflict if the name exists in any case, and ValidationError.
    """
    user = User(username=username)
    user.set_unusable_password()
    save_or_refuse(user, conflict=f"A user named {user.username!r} exists already; deleted users keep their names.")
    user.roles.set(_roles_named(roles))
    return user


@transaction.atomic
def create_service_account(
    *,
    username: str,
    group_id: int | None,
    display_name: str = "",
    email: str = "",
    role_ids: Collection[int] | None = None,
    is_active: bool = True,
    is_deleted: bool = False,
) -> User:
    """Create a user without a password that a group owns, as one of its members; by default with the role user.

    Raises Conflict if the name exists in any case, and ValidationError, also for the role admin.
    """
    group = _group_of_account(group_id)
    account = User(
        username=User.normalize_username(username),
        kind=UserKind.SERVICE,
        owning_group=group,
        display_name=display_name,
        email=email,
        is_active=is_active,
        is_deleted=is_deleted,
    )
    account.set_unusable_password()
    save_or_refuse(
        account, conflict=f"A user named {account.username!r} exists already; deleted users keep their names."
    )
    _set_roles(account, [role.pk for role in _roles_named([USER_ROLE])] if role_ids is None else role_ids)
    group.members.add(account)
    return account


def _group_of_account(group_id: int | None) -> Group:
    """The group, locked against deletion; raises ValidationError."""
    if group_id is None:
        raise ValidationError("is missing: a service account needs a group that owns it.", field="group_id")
    (group,) = rows_by_id(Group.objects.select_for_update(), [group_id], field="group_id")
    return group


def _set_roles(user: User, role_ids: Collection[int]) -> None:
    roles = rows_by_id(Role.objects.all(), role_ids, field="roles")
    if user.is_service and any(role.name == ADMIN_ROLE for role in roles):
        problem = "a service account cannot be an admin: give it a role with the features that it needs."
        raise ValidationError(problem, field="roles")
    user.roles.set(roles)


@transaction.atomic
def create_feature(*, name: str) -> Feature:
    """Create a feature; raises Conflict if the name exists, and ValidationError."""
    feature = Feature(name=name)
    save_or_refuse(feature, conflict=f"A feature named {name!r} exists already.")
    return feature


@transaction.atomic
def create_role(*, name: str, feature_ids: Collection[int] = (), requires_second_factor: bool = False) -> Role:
    """Create a role that grants these features; raises Conflict if the name exists, and ValidationError."""
    role = Role(name=name, requires_second_factor=requires_second_factor)
    _save_role(role)
    role.features.set(rows_by_id(Feature.objects.all(), feature_ids, field="features"))
    return role


@guarded_change(Access.CALLERS)
def update_role(
    role: Role,
    *,
    name: str | None = None,
    feature_ids: Collection[int] | None = None,
    requires_second_factor: bool | None = None,
) -> None:
    """Store a new name and another set of features, where given; raises Conflict, NotFound and ValidationError.

    The built-in roles keep their names, which the code uses. The role admin keeps all features. Where a role begins to
    require a second factor, sessions go on: it is asked for at the next login.
    """
    lock_row(role, Role.objects.all())
    if name is not None and name != role.name:
        if role.name in ROLES:
            raise Conflict(f"The role {role.name!r} is built in and keeps its name.")
        role.name = name
        _save_role(role)
    if requires_second_factor is not None:
        role.requires_second_factor = requires_second_factor
        role.save(update_fields=["requires_second_factor"])
    if feature_ids is not None:
        features = rows_by_id(Feature.objects.all(), feature_ids, field="features")
        if role.name == ADMIN_ROLE and set(features) != set(role.granted):
            raise Conflict(f"the role {role.name!r} always has every feature.", field="features")
        role.features.set(features)


def _save_role(role: Role) -> None:
    save_or_refuse(role, conflict=f"A role named {role.name!r} exists already.")


@transaction.atomic
def update_user(
    user: User,
    *,
    display_name: str | None = None,
    email: str | None = None,
    is_active: bool | None = None,
    role_ids: Collection[int] | None = None,
    password: str | None = None,
    group_id: int | EllipsisType | None = ...,
    current_session: UUID | None = None,
    username: str | None = None,
    external_id: str | None = None,
) -> None:
    """Store the given changes; a new password ends the user's sessions except `current_session`.

    With another `group_id`, a service account leaves its group and belongs to that one.
    Raises Conflict for a change that would leave no active admin, NotFound and ValidationError.
    """
    is_access_changed = is_active is not None or role_ids is not None or group_id is not ...
    values = {"display_name": display_name, "email": email, "is_active": is_active, "external_id": external_id}
    with guarded_change(Access.CALLERS) if is_access_changed else nullcontext(), _keeping_an_admin(user):
        for name, value in values.items():
            if value is not None:
                setattr(user, name, value)
        if username is not None:
            user.username = User.normalize_username(username)
        if group_id is not ...:
            _move_account(user, group_id)
        if password is not None:
            _refuse_password(user)
            new_password = _validated_password(password, user, "new_password")
            user.password = hashing_queue.hash(new_password, owner=user.pk)
        save_or_refuse(user, conflict=f"A user named {user.username!r} exists already.")
        if role_ids is not None:
            _set_roles(user, role_ids)
    if password is not None or not user.is_usable:
        end_sessions(user=user, except_for=current_session if user.is_usable else None)


def _move_account(user: User, group_id: int | None) -> None:
    """Make a group the owner of a service account, without saving it; raises ValidationError."""
    if group_id == user.owning_group_id:
        return
    if not user.is_service:
        raise ValidationError("is for service accounts only.", field="group_id")
    group = _group_of_account(group_id)
    if user.owning_group is not None:
        user.owning_group.members.remove(user)
    user.owning_group = group
    group.members.add(user)


def _refuse_password(user: User) -> None:
    if user.is_service:
        raise ValidationError("must not be sent: a service account never logs in.", field="new_password")


@guarded_change(Access.CALLERS)
def delete_user(user: User) -> None:
    """Mark a user as deleted: the row stays, all credentials end. Raises Conflict for the last admin.

    A person keeps the name; that of a service account is free again.
    """
    with _keeping_an_admin(user):
        user.is_deleted = True
        if user.is_service:
            user.username = _name_of_deleted(user)
        user.save(update_fields=["is_deleted", "username", "name_key"])
    end_sessions(user=user)


def _name_of_deleted(account: User) -> str:
    """A free name that says which service account it was: another one may have its name from now on."""
    shortened = account.username[: LONGEST_USERNAME - 40].rstrip()
    names = (f"{shortened} (deleted {account.pk}{f'.{number}' if number else ''})" for number in count())
    return next(name for name in names if not User.objects.with_username(name).exists())


def lock_user(user: User) -> None:
    """Read a user again and lock them, and who is an admin, to the end of the transaction; raises NotFound."""
    # The role first: two admins must not take it from each other concurrently.
    Role.objects.select_for_update().get(name=ADMIN_ROLE)
    lock_row(user, User.objects.all())


@contextmanager
def _keeping_an_admin(user: User) -> Iterator[None]:
    """Around a change of a user: raises Conflict if no admin who can log in is left after it."""
    lock_user(user)
    was_admin = User.objects.able_to_log_in().admins().filter(pk=user.pk).exists()
    yield
    if was_admin and not User.objects.able_to_log_in().admins().exists():
        raise Conflict("The last active admin cannot be deleted, deactivated or stripped of the role.")


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
    lock_row(group, Group.objects.all())
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
    # All of them are locked: two changes at once could make a circle.
    parents = dict(Group.objects.select_for_update().order_by("pk").values_list("pk", "parent_id"))
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
    lock_row(group, Group.objects.all())
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
    # Locked first, as in update_group(): a transaction that is about to refer to it waits, and finds it deleted.
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


def _validated_password(password: str, user: User, field: str = "password") -> str:
    """The password if it is good enough for this user, whose other new values are set already."""
    if not password:
        raise ValidationError("must not be empty.", field=field)
    try:
        check_text(password)
        MaxLengthValidator(MAX_PASSWORD_LENGTH)(password)
        validate_password(password, user)
    except PasswordRefused as refused:
        raise ValidationError.from_fields({field: refused.messages}) from None
    return password


def _roles_named(names: Collection[str]) -> QuerySet[Role]:
    roles = Role.objects.named(*names)
    if unknown := set(names) - {role.name for role in roles}:
        raise ValidationError(f"there is no role named {', '.join(sorted(unknown))}.", field="roles")
    return roles
