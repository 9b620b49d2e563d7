"""Changes that only a directory makes; all others are in accounts/services/."""

from collections.abc import Collection, Iterator

from django.db import transaction
from django.db.models import QuerySet

from accounts.builtin import USER_ROLE
from accounts.models import AuthenticatorApp, Group, Passkey, RecoveryCode, Role, User, UserKind
from accounts.services import lock_user
from gateway_project.database.saving import lock_row_for_change, rows_by_id
from gateway_project.hooks import Hook

BATCH = 5000
# Marks all keys of a user as deleted.
delete_keys_of: Hook[[User], None] = Hook("delete_keys_of")


@transaction.atomic
def restore_user(user: User) -> None:
    """Let a deleted user be one again, with the role user.

    No group, key, password or second factor comes back; rules and limits for the user apply again. Raises NotFound.
    """
    lock_user(user)
    delete_keys_of(user)
    user.is_deleted = False
    user.set_unusable_password()
    user.save(update_fields=["is_deleted", "password"])
    for factors in (AuthenticatorApp, Passkey, RecoveryCode):
        factors.objects.filter(user=user).delete()
    user.roles.set(Role.objects.named(USER_ROLE))
    user.groups.clear()
    user.administered_groups.clear()


@transaction.atomic
def change_members(
    group: Group, *, joining: Collection[int], leaving: Collection[int], members: Collection[int] | None = None
) -> tuple[list[int], list[int]]:
    """Let people join and leave a group, of `members` if these are given; returns the ids of who did.

    Service accounts stay. Whoever is no member any more is no admin. Raises NotFound, and ValidationError for somebody
    who cannot join. Only the rows of those who join or leave are read, unless all members are given.
    """
    lock_row_for_change(group, Group.objects.all())
    if members is not None:
        present = set(people_of(group).values_list("pk", flat=True))
        target = (set(members) | set(joining)) - set(leaving)
        joining, leaving = target - present, present - target
    removed = [user_id for batch in _batches(leaving) for user_id in _leave(group, batch)]
    added = [user_id for batch in _batches(joining) for user_id in _join(group, batch)]
    return added, removed


def _batches(user_ids: Collection[int]) -> Iterator[list[int]]:
    """The ids in parts that a statement of every database takes."""
    ids = sorted(user_ids)
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


def people_of(group: Group) -> QuerySet[User]:
    """The members that a directory sees."""
    return group.members.filter(kind=UserKind.PERSON, is_deleted=False)


def _leave(group: Group, user_ids: list[int]) -> list[int]:
    removed = sorted(people_of(group).filter(pk__in=user_ids).values_list("pk", flat=True))
    if removed:
        group.members.remove(*removed)
        group.admins.remove(*removed)
    return removed


def _join(group: Group, user_ids: list[int]) -> list[int]:
    rows_by_id(User.objects.live().filter(kind=UserKind.PERSON), user_ids, field="members")
    present = set(group.members.filter(pk__in=user_ids).values_list("pk", flat=True))
    added = sorted(set(user_ids) - present)
    if added:
        group.members.add(*added)
        group.admins.remove(*added)
    return added
