"""Every change to users, roles, features and groups; those to sessions are in sessions.py."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as PasswordRefused
from django.core.validators import MaxLengthValidator
from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.builtin import ADMIN_ROLE, ROLES, USER_ROLE
from accounts.models import MAX_PASSWORD_LENGTH, Feature, Group, Role, User, check_text
from accounts.sessions import end_sessions
from gateway_project.database.saving import lock_row, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict, NotFound, ValidationError


@transaction.atomic
def create_user(
    *,
    username: str,
    password: str,
    display_name: str = "",
    email: str = "",
    roles: Collection[str] = (USER_ROLE,),
    role_ids: Collection[int] | None = None,
    is_active: bool = True,
    is_deleted: bool = False,
) -> User:
    """Create a user with these roles, given by id or by name; by default the role user.

    Raises Conflict if the name exists in any case, deleted users included, and ValidationError.
    """
    user = User(
        username=User.normalize_username(username),
        display_name=display_name,
        email=email,
        is_active=is_active,
        is_deleted=is_deleted,
    )
    user.set_password(_validated_password(password))
    save_or_refuse(user, conflict=f"A user named {user.username!r} exists already; deleted ones keep their names.")
    user.roles.set(_roles_named(roles) if role_ids is None else rows_by_id(Role.objects.all(), role_ids, field="roles"))
    return user


@transaction.atomic
def create_feature(*, name: str) -> Feature:
    """Create a feature; raises Conflict if the name exists, and ValidationError."""
    feature = Feature(name=name)
    save_or_refuse(feature, conflict=f"A feature named {name!r} exists already.")
    return feature


@transaction.atomic
def create_role(*, name: str, feature_ids: Collection[int] = ()) -> Role:
    """Create a role that grants these features; raises Conflict if the name exists, and ValidationError."""
    role = Role(name=name)
    _save_role(role)
    role.features.set(rows_by_id(Feature.objects.all(), feature_ids, field="features"))
    return role


@transaction.atomic
def update_role(role: Role, *, name: str | None = None, feature_ids: Collection[int] | None = None) -> None:
    """Store a new name and another set of features, where given; raises Conflict, NotFound and ValidationError.

    The built-in roles keep their names, which the code uses. The role admin keeps all features.
    """
    lock_row(role, Role.objects.all())
    if name is not None and name != role.name:
        if role.name in ROLES:
            raise Conflict(f"The role {role.name!r} is built in and keeps its name.")
        role.name = name
        _save_role(role)
    if feature_ids is not None:
        features = rows_by_id(Feature.objects.all(), feature_ids, field="features")
        if role.name == ADMIN_ROLE and set(features) != set(role.granted):
            raise Conflict(f"the role {role.name!r} has every feature there is, and keeps them.", field="features")
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
    current_session: UUID | None = None,
) -> None:
    """Store the given changes; a new password ends the user's sessions except `current_session`.

    Raises Conflict for a change that would leave no active admin, NotFound and ValidationError.
    """
    with _keeping_an_admin(user):
        for name, value in {"display_name": display_name, "email": email, "is_active": is_active}.items():
            if value is not None:
                setattr(user, name, value)
        if password is not None:
            user.set_password(_validated_password(password, "new_password"))
        save_or_refuse(user, conflict=f"A user named {user.username!r} exists already.")
        if role_ids is not None:
            user.roles.set(rows_by_id(Role.objects.all(), role_ids, field="roles"))
    if password is not None or not user.is_usable:
        end_sessions(user=user, except_for=current_session if user.is_usable else None)


@transaction.atomic
def delete_user(user: User) -> None:
    """Mark a user as deleted: the row stays, all credentials end. Raises Conflict for the last admin."""
    with _keeping_an_admin(user):
        user.is_deleted = True
        user.save(update_fields=["is_deleted"])
    end_sessions(user=user)


@contextmanager
def _keeping_an_admin(user: User) -> Iterator[None]:
    """Around a change of a user: raises Conflict if no admin who can log in is left after it."""
    # Locked to the end of the transaction: two admins must not take the role from each other concurrently.
    Role.objects.select_for_update().get(name=ADMIN_ROLE)
    lock_row(user, User.objects.all())
    was_admin = User.objects.usable().admins().filter(pk=user.pk).exists()
    yield
    if was_admin and not User.objects.usable().admins().exists():
        raise Conflict("The last active admin cannot be deleted, deactivated or stripped of the role.")


@transaction.atomic
def create_group(*, name: str, member_ids: Collection[int] = ()) -> Group:
    """Create a group of these users; raises Conflict if the name exists, and ValidationError."""
    group = Group(name=name)
    _save_group(group)
    group.members.set(rows_by_id(_eligible_members(group), member_ids, field="members"))
    return group


@transaction.atomic
def update_group(group: Group, *, name: str | None = None, member_ids: Collection[int] | None = None) -> None:
    """Store a new name and another set of members, where given; raises Conflict, NotFound and ValidationError."""
    lock_row(group, Group.objects.all())
    if name is not None:
        group.name = name
        _save_group(group)
    if member_ids is not None:
        group.members.set(rows_by_id(_eligible_members(group), member_ids, field="members"))


@transaction.atomic
def add_member(group: Group, *, user_id: int) -> User:
    """Add a member, who may be one already; returns the user. Raises NotFound and ValidationError."""
    lock_row(group, Group.objects.all())
    (user,) = rows_by_id(_eligible_members(group), [user_id], field="id")
    group.members.add(user)
    return user


@transaction.atomic
def remove_member(group: Group, *, user_id: int) -> User:
    """Remove a member and return the user; raises NotFound."""
    member = group.members.filter(pk=user_id).first()
    if member is None:
        raise NotFound(f"The group has no member with the id {user_id}.")
    group.members.remove(member)
    return member


@transaction.atomic
def delete_group(group: Group) -> None:
    """Delete a group; its rules stay and are for nobody, its limits are deleted. Raises NotFound."""
    # Locked first, as in update_group(): a transaction that is about to refer to it waits, and finds it deleted.
    lock_row(group, Group.objects.all())
    group.delete()


def _eligible_members(group: Group) -> QuerySet[User]:
    """The users who may be members: not deleted, or members already, so that other changes of the group succeed."""
    return User.objects.filter(Q(is_deleted=False) | Q(groups=group)).distinct()


def _save_group(group: Group) -> None:
    save_or_refuse(group, conflict=f"A group named {group.name!r} exists already.")


def _validated_password(password: str, field: str = "password") -> str:
    if not password:
        raise ValidationError("must not be empty.", field=field)
    try:
        check_text(password)
        MaxLengthValidator(MAX_PASSWORD_LENGTH)(password)
        validate_password(password)
    except PasswordRefused as refused:
        raise ValidationError.from_fields({field: refused.messages}) from None
    return password


def _roles_named(names: Collection[str]) -> QuerySet[Role]:
    roles = Role.objects.named(*names)
    if unknown := set(names) - {role.name for role in roles}:
        raise ValidationError(f"there is no role named {', '.join(sorted(unknown))}.", field="roles")
    return roles
