"""Whom somebody who manages users without being an admin may change, and which roles they may give."""

from collections.abc import Iterable

from accounts.builtin import ADMIN_ROLE, USER_ROLE
from accounts.managing.groups import MODIFY
from accounts.models import Feature, Group, Role, User
from accounts.services import lock_user
from gateway_project.api.access import MANAGE_USERS, Caller
from gateway_project.errors import PermissionDenied


def check_manageable(caller: Caller, user: User) -> None:
    """Raise PermissionDenied unless the caller may change this user, whose row stays locked: roles must not change.

    An admin may change everybody, a login its own user. Whoever else manages users may change those who may do no more
    than they: a password that they set would be a way to the rest.
    """
    if caller.is_admin or (caller.is_login and caller.owns(user.pk)):
        return
    refuse_own_key(caller, user.pk)
    lock_user(user)
    if user.is_admin:
        raise PermissionDenied("Only an admin can change an admin.")
    if Group.objects.administered_by(user).exists():
        raise PermissionDenied("Only an admin can change this user, who administers a group.")
    if excess := user.feature_names() - _grantable_features(caller):
        raise PermissionDenied(f"Only an admin can change this user, who has {_list_features(excess)}.")


def refuse_own_key(caller: Caller, user_id: int | None) -> None:
    """Raise PermissionDenied if a key would change its owner."""
    if caller.owns(user_id) and not caller.is_login:
        raise PermissionDenied("An API key cannot change its own owner, even if the owner is an admin.")


def check_roles(caller: Caller, user: User, roles: Iterable[Role]) -> None:
    """Raise PermissionDenied unless the caller may give the user these roles, in the place of all others.

    Whether the caller is an admin is asked again: the role may have been taken away since the request came.
    """
    if caller.is_admin and User.objects.admins().filter(pk=caller.user.pk).exists():
        return
    if caller.owns(user.pk) or not caller.has(MANAGE_USERS):
        raise PermissionDenied(
            "assigning roles needs the role admin, or for other users the permission users.manage.", field="roles"
        )
    grantable = _grantable_features(caller)
    for role in roles:
        if role.name == ADMIN_ROLE:
            raise PermissionDenied("only an admin can make admins.", field="roles")
        if excess := {feature.name for feature in role.granted} - grantable:
            raise PermissionDenied(
                f"only an admin can give {role.name}, which grants {_list_features(excess)}.", field="roles"
            )


def check_group(caller: Caller) -> None:
    """Raise PermissionDenied unless the caller may put a service account into a group: the group's rules are for it."""
    if not caller.has(MODIFY):
        raise PermissionDenied(f"choosing the group of a service account needs {MODIFY}.", field="group_id")


def _grantable_features(caller: Caller) -> set[str]:
    """The caller's features, and those of the role that every new user has.

    Not users.manage: whoever has a key of an hour must not make somebody who manages users for longer.
    """
    basic = Feature.objects.filter(roles__name=USER_ROLE).values_list("name", flat=True)
    return {*caller.features - {MANAGE_USERS}, *basic}


def _list_features(features: Iterable[str]) -> str:
    return ", ".join(sorted(features))
