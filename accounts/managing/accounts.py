"""Service accounts that admins of a group manage: those of the group and of groups below it."""

from collections.abc import Mapping
from datetime import timedelta

from django.utils import timezone

from accounts.managing.groups import MODIFY, administered_groups, administers_account
from accounts.managing.users import check_manageable
from accounts.models import User
from accounts.trusted_issuers.models import TrustedIssuer
from gateway_project.api.access import MANAGE_USERS, Caller
from gateway_project.database.names import name_key
from gateway_project.errors import Conflict, PermissionDenied

MAX_ACCOUNTS = 100  # live ones of a group, beyond which only whoever manages users makes more
MAX_NEW_ACCOUNTS = 200  # of a group in a day, deleted ones included: their rows stay
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
    _refuse_excess(group_id)
    _refuse_named_by_issuers(str(values["username"]))


def _refuse_excess(group_id: int) -> None:
    accounts = User.objects.service_accounts().filter(owning_group=group_id)
    if accounts.live().count() >= MAX_ACCOUNTS:
        raise Conflict(f"The group has {MAX_ACCOUNTS} service accounts. Delete some first.")
    if accounts.filter(created_at__gte=timezone.now() - timedelta(days=1)).count() >= MAX_NEW_ACCOUNTS:
        raise Conflict(f"The group got {MAX_NEW_ACCOUNTS} new service accounts within a day. Create others tomorrow.")


def _refuse_named_by_issuers(username: str) -> None:
    """Raise Conflict for a name that tokens of a trusted issuer stand for: the group would see their requests."""
    issuers = TrustedIssuer.objects.values_list("user_prefix", "subjects")
    names = {name_key(name) for _, subjects in issuers for name in subjects.values()}
    # Without a list of subjects, tokens stand for every user whose name begins with the prefix; an empty one fits all.
    prefixes = tuple(name_key(prefix) for prefix, subjects in issuers if not subjects)
    if name_key(username) in names or name_key(username).startswith(prefixes):
        raise Conflict(
            "Tokens of a trusted issuer stand for this user name: only an administrator can create the account."
        )


def check_account_changes(caller: Caller, user: User, changes: Mapping[str, object]) -> None:
    """Raise PermissionDenied unless the caller may change the service account so, whose row stays locked.

    Admins of its group change no roles and no group, and no account that may do more than they.
    """
    if not administers_account(caller, user.pk):
        raise PermissionDenied(f"This needs the permission {MANAGE_USERS}, or to be an admin of the account's group.")
    if excess := sorted(changes.keys() - CHANGEABLE):
        raise PermissionDenied(f"changing this needs {MANAGE_USERS}.", field=excess[0])
    check_manageable(caller, user)
