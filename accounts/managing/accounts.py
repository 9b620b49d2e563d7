"""Service accounts that admins of a group manage: those of the group and of groups below it."""

from collections.abc import Mapping

from accounts.managing.groups import MODIFY, administered_groups, administers_account
from accounts.managing.users import check_manageable
from accounts.models import User
from gateway_project.api.access import MANAGE_USERS, Caller
from gateway_project.errors import Conflict, PermissionDenied

MAX_ACCOUNTS = 100  # live ones of a group, beyond which only whoever manages users makes more
CHANGEABLE = frozenset({"display_name", "email", "is_active"})


def manages_users(caller: Caller) -> bool:
    """Whether the caller manages users, and not just the service accounts of a group."""
    return caller.has(MANAGE_USERS)


def check_new_account(caller: Caller, values: Mapping[str, object]) -> None:
    """Raise PermissionDenied or Conflict unless the caller may make a service account of these values.

    Admins of the group make those with the role user alone; whoever manages users needs groups.modify for the group,
    whose rules are for the account.
    """
    group_id = values.get("group_id")
    if manages_users(caller) and caller.has(MODIFY):
        return
    if group_id not in administered_groups(caller):
        needed = MODIFY if manages_users(caller) else f"{MANAGE_USERS} and {MODIFY}"
        raise PermissionDenied(f"choosing this group needs {needed}, or to be an admin of the group.", field="group_id")
    if "role_ids" in values and not manages_users(caller):
        raise PermissionDenied(f"giving roles needs {MANAGE_USERS}.", field="roles")
    assert isinstance(group_id, int), "it is one of the caller's groups"
    if User.objects.live().filter(owning_group=group_id).count() >= MAX_ACCOUNTS:
        raise Conflict(f"The group has {MAX_ACCOUNTS} service accounts. Delete some first.")


def check_account_changes(caller: Caller, user: User, changes: Mapping[str, object]) -> None:
    """Raise PermissionDenied unless the caller may change the service account so, whose row stays locked.

    Admins of its group change no roles and no group, and no account that may do more than they.
    """
    if not administers_account(caller, user.pk):
        raise PermissionDenied(f"This needs the permission {MANAGE_USERS}, or to be an admin of the account's group.")
    if excess := sorted(changes.keys() - CHANGEABLE):
        raise PermissionDenied(f"changing this needs {MANAGE_USERS}.", field=excess[0])
    check_manageable(caller, user)
