"""Limits that admins of a group set: for service accounts of the group, their keys, and groups below it."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from django.conf import settings

from accounts.group_tree import with_ancestors
from accounts.managing.groups import administered_groups
from accounts.models import Group
from gateway_project.api.access import Caller
from gateway_project.errors import PermissionDenied
from licensing.models import Limit, Unpriced

OUTSIDE_OF_GROUP = (
    "An admin of a group can only set limits of its service accounts, of their keys, and of groups below it."
)


def check_group_limit(caller: Caller, limit: Limit) -> None:
    """Raise PermissionDenied unless the caller may set this limit, as it would be, or is an admin."""
    if caller.is_admin:
        return
    above = check_subject(caller, limit)
    if not limit.amount:
        raise PermissionDenied("must be above 0: only an admin can set 0 (unlimited).", field="amount")
    if limit.unpriced != Unpriced.REFUSE:
        raise PermissionDenied("only an admin can choose this.", field="unpriced")
    most = _bound(limit, above)
    if most is not None and limit.amount > most:
        raise PermissionDenied(
            f"must be at most {most.normalize():f}, the limit of the group or the default.", field="amount"
        )


def check_subject(caller: Caller, limit: Limit) -> frozenset[int]:
    """The ids of the groups whose limits are for the subject, too, or PermissionDenied if it is not the caller's."""
    if caller.is_admin:
        return frozenset()
    above = _groups_above(limit, administered_groups(caller), Group.objects.parents())
    if above is None:
        raise PermissionDenied(OUTSIDE_OF_GROUP)
    return above


def changeable_limits(caller: Caller, limits: Iterable[Limit]) -> frozenset[int]:
    """The ids of those of these limits that the caller may change; two queries for all of them."""
    groups, parents = administered_groups(caller), Group.objects.parents()
    return frozenset(
        limit.pk for limit in limits if caller.is_admin or _groups_above(limit, groups, parents) is not None
    )


def _groups_above(limit: Limit, groups: frozenset[int], parents: Mapping[int, int]) -> frozenset[int] | None:
    """The ids of the groups whose limits are for the subject, too; None if it does not belong to these groups."""
    group_id = owning_group_id(limit)
    if group_id is None or group_id not in groups:
        return None
    above = frozenset(with_ancestors([group_id], parents))
    if limit.group_id is None:
        return above
    above -= {group_id}
    return above if above & groups else None  # None for the caller's own group, whose limits others have set


def owning_group_id(limit: Limit) -> int | None:
    """The id of the group that the subject belongs to, or is."""
    if limit.group_id is not None:
        return limit.group_id
    user = limit.key.owner if limit.key is not None else limit.user
    return user.owning_group_id if user is not None else None


def _bound(limit: Limit, above: frozenset[int]) -> Decimal | None:
    """The smallest of the groups' limits of this measure and window, and of the subject's default; None without."""
    kind = "key" if limit.key is not None else "user" if limit.user is not None else "group"
    default = settings.GATEWAY_LIMITS[kind].get((limit.measure, limit.window), Decimal(0))
    same = Limit.objects.effective().filter(group__in=above, measure=limit.measure, window=limit.window)
    return min([*same.values_list("amount", flat=True), *([default] if default else [])], default=None)
