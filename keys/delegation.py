"""What admins of a group may do with the keys of its service accounts."""

from collections.abc import Iterable

from gateway_project.api.access import Caller
from gateway_project.errors import PermissionDenied


def check_delegation(caller: Caller, owner_id: int, permissions: Iterable[str]) -> None:
    """Raise PermissionDenied if an admin of a group would have a key of a service account that may do more."""
    if caller.is_admin or caller.owns(owner_id):
        return
    own = {name.lower() for name in caller.features}
    if excess := sorted({name for name in permissions if name.lower() not in own}):
        raise PermissionDenied(f"you lack {', '.join(excess)}, which this key has.", field="permissions")
