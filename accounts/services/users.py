"""Every change to users, people and service accounts; those to their sessions are in accounts/sessions.py."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from types import EllipsisType
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as PasswordRefused
from django.core.validators import MaxLengthValidator
from django.db import transaction
from django.db.models import QuerySet

from accounts.builtin import ADMIN_ROLE, USER_ROLE
from accounts.guessing.hashing import hashing_queue
from accounts.models import LONGEST_USERNAME, MAX_PASSWORD_LENGTH, Group, Role, User, UserKind, check_text
from accounts.sessions import end_sessions
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row_for_change, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict, ValidationError

NAME_EXISTS = "A user named {name!r} exists already; deleted users keep their names."


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
        user.password = hashing_queue.hash(validated_password(password, user))
    save_or_refuse(user, conflict=NAME_EXISTS.format(name=user.username))
    user.roles.set(_roles_named(roles) if role_ids is None else rows_by_id(Role.objects.all(), role_ids, field="roles"))
    return user


@transaction.atomic
def create_federated_user(*, username: str, roles: Collection[str] = (USER_ROLE,)) -> User:
    """Create a person without a password, who logs in with an identity provider.

    Raises Conflict if the name exists in any case, and ValidationError.
    """
    user = User(username=username)
    user.set_unusable_password()
    save_or_refuse(user, conflict=NAME_EXISTS.format(name=user.username))
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
    save_or_refuse(account, conflict=NAME_EXISTS.format(name=account.username))
    _set_roles(account, [role.pk for role in _roles_named([USER_ROLE])] if role_ids is None else role_ids)
    group.members.add(account)
    return account


def _group_of_account(group_id: int | None) -> Group:
    """The group, locked against deletion; raises ValidationError."""
    if group_id is None:
        raise ValidationError("is missing: a service account needs a group that owns it.", field="group_id")
    (group,) = rows_by_id(Group.objects.select_for_update(no_key=True), [group_id], field="group_id")
    return group


def _set_roles(user: User, role_ids: Collection[int]) -> None:
    roles = rows_by_id(Role.objects.all(), role_ids, field="roles")
    if user.is_service and any(role.name == ADMIN_ROLE for role in roles):
        problem = "a service account cannot be an admin: give it a role with the features that it needs."
        raise ValidationError(problem, field="roles")
    user.roles.set(roles)


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
            new_password = validated_password(password, user, "new_password")
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
    # The role is locked first: two admins must not take it from each other at the same time.
    Role.objects.select_for_update(no_key=True).get(name=ADMIN_ROLE)
    lock_row_for_change(user, User.objects.all())


@contextmanager
def _keeping_an_admin(user: User) -> Iterator[None]:
    """Around a change of a user: raises Conflict if no admin who can log in is left after it."""
    lock_user(user)
    was_admin = User.objects.able_to_log_in().admins().filter(pk=user.pk).exists()
    yield
    if was_admin and not User.objects.able_to_log_in().admins().exists():
        raise Conflict("The last active admin cannot be deleted, deactivated or stripped of the role.")


def validated_password(password: str, user: User, field: str = "password") -> str:
    """The password if it is good enough for this user, whose other new values are set already.

    Raises ValidationError.
    """
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
