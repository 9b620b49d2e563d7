"""Administrators of groups: what a membership with `admin` lets a login do, for the group and those below it."""

from accounts.group_tree import with_descendants
from accounts.models import Group, User
from gateway_project.api.access import Caller
from gateway_project.errors import PermissionDenied

VIEW, MODIFY = "groups.view", "groups.modify"


def administered_groups(caller: Caller) -> frozenset[int]:
    """The ids of the groups that the caller administers as one of their admins, or of a group above.

    Empty for API keys: no permission stands for this.
    """
    if not caller.is_login:
        return frozenset()
    own = list(Group.objects.administered_by(caller.user).values_list("pk", flat=True))
    return with_descendants(own, Group.objects.parents()) if own else frozenset()


def administers_account(caller: Caller, user_id: int | None) -> bool:
    """Whether the user is a service account of a group that the caller administers."""
    if user_id is None or not (groups := administered_groups(caller)):
        return False
    return User.objects.live().service_accounts().filter(pk=user_id, owning_group__in=groups).exists()


def require_group(caller: Caller, group_id: int, feature: str) -> None:
    """Raise PermissionDenied unless the caller has the feature or administers the group."""
    if not caller.has(feature) and group_id not in administered_groups(caller):
        raise PermissionDenied(f"This needs the permission {feature}, or to be an admin of the group.")


def check_addition(caller: Caller, user: User) -> None:
    """Raise PermissionDenied if an admin of a group would add an admin, or a service account of somebody else's group.

    The group's log would show their requests.
    """
    if caller.has(MODIFY):
        return
    if user.is_admin:
        raise PermissionDenied(f"adding an admin needs the permission {MODIFY}.", field="id")
    if user.is_service and user.owning_group_id not in administered_groups(caller):
        raise PermissionDenied(f"adding a service account of another group needs {MODIFY}.", field="id")


def check_removal(caller: Caller, group: Group, user: User) -> None:
    """Raise PermissionDenied if an admin of a group would remove another one."""
    if not caller.has(MODIFY) and group.has_admin(user):
        check_appointment(caller, group)


def check_appointment(caller: Caller, group: Group) -> None:
    """Raise PermissionDenied unless the caller may say who is an admin of a group: admins, and those of a group above.

    Not groups.modify: it grants neither the log nor the limits of a group.
    """
    if not caller.is_admin and group.parent_id not in administered_groups(caller):
        raise PermissionDenied("only an admin, or one of a group above, can change who is an admin.", field="admin")
