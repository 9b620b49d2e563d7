"""Changes of members by whoever may make them: with groups.modify, or as an admin of the group."""

from accounts import services
from accounts.group_tree import with_descendants
from accounts.managing.groups import check_addition, check_appointment, check_removal
from accounts.models import Group, User
from gateway_project.api.access import Caller
from gateway_project.change_feed.cuts import Credential


def add_group_member(caller: Caller, group: Group, *, user_id: int, is_admin: bool | None = None) -> User:
    """Add a member or say whether one is an admin; returns the user. The transaction has locked the group.

    Raises NotFound, PermissionDenied and ValidationError.
    """
    user = User.objects.filter(pk=user_id).first()
    was_admin = user is not None and group.has_admin(user)
    if is_admin is not None and is_admin != was_admin:
        check_appointment(caller, group)
    member = services.add_member(group, user_id=user_id, is_admin=is_admin)
    check_addition(caller, member)
    return member


def remove_group_member(caller: Caller, group: Group, *, user_id: int) -> User:
    """Remove a member and return the user; the transaction has locked the group.

    Raises Conflict, NotFound and PermissionDenied.
    """
    user = User.objects.filter(pk=user_id).first()
    if user is not None:
        check_removal(caller, group, user)
    return services.remove_member(group, user_id=user_id)


def credentials_within(group: Group) -> list[Credential]:
    """The members of a group and of the groups below it, to all of whom its rules and limits apply."""
    ids = with_descendants([group.pk], Group.objects.parents())
    members = User.objects.filter(groups__in=ids).order_by("pk").distinct()
    return [Credential("user", user_id) for user_id in members.values_list("pk", flat=True)]
