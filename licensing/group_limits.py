"""Limits that admins of a group set: for service accounts of the group, their keys, and groups below it."""

from decimal import Decimal

from django.conf import settings

from accounts.group_tree import with_ancestors
from accounts.managing.groups import administered_groups
from accounts.models import Group
from gateway_project.api.access import Caller
from gateway_project.errors import PermissionDenied
from licensing.models import Limit, Unpriced

ELSEWHERE = "An admin of a group can only set limits of its service accounts, of their keys, and of groups below it."


def check_group_limit(caller: Caller, limit: Limit) -> None:
    """Raise PermissionDenied unless the caller may set this limit, as it would be, or is an admin."""
    if caller.is_admin:
        return
    above = check_subject(caller, limit)
    if not limit.amount:
        raise PermissionDenied("must be above 0: only an admin can set no limit.", field="amount")
    if limit.unpriced != Unpriced.REFUSE:
        raise PermissionDenied("only an admin can choose this.", field="unpriced")
    most = _bound(limit, above)
    if most is not None and limit.amount > most:
        raise PermissionDenied(
            f"must be at most {most.normalize():f}, which the group or the default has.", field="amount"
        )


def check_subject(caller: Caller, limit: Limit) -> frozenset[int]:
    """The ids of the groups whose limits are for the subject, too, or PermissionDenied if it is not the caller's."""
    if caller.is_admin:
        return frozenset()
    groups = administered_groups(caller)
    group = _group_of(limit)
    if group is None or group.pk not in groups:
        raise PermissionDenied(ELSEWHERE)
    above = _with_all_above(group)
    if limit.group_id is not None:
        above -= {group.pk}
        if not above & groups:  # the caller's own group, whose limits others have set
            raise PermissionDenied(ELSEWHERE)
    return above


def _group_of(limit: Limit) -> Group | None:
    """The group that the subject belongs to, or is."""
    if limit.group is not None:
        return limit.group
    user = limit.key.owner if limit.key is not None else limit.user
    return user.owning_group if user is not None else None


def _with_all_above(group: Group) -> frozenset[int]:
    return frozenset(with_ancestors([group.pk], Group.objects.parents()))


def _bound(limit: Limit, above: frozenset[int]) -> Decimal | None:
    """The smallest of the groups' limits of this measure and window, and of the subject's default; None without."""
    kind = "key" if limit.key is not None else "user" if limit.user is not None else "group"
    default = settings.GATEWAY_LIMITS[kind].get((limit.measure, limit.window), Decimal(0))
    same = Limit.objects.effective().filter(group__in=above, measure=limit.measure, window=limit.window)
    return min([*same.values_list("amount", flat=True), *([default] if default else [])], default=None)
