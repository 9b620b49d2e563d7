"""Every question to the database about API keys."""

from collections.abc import Collection
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Self, TypeVar

from django.db import models
from django.db.models import Case, Q, Value, When
from django.utils import timezone

from accounts.models import User
from keys.states import SOON, KeyState

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)


def _refusals(at: datetime | None) -> dict[KeyState, Q]:
    """The condition of each state in which a key is refused; the first that holds is the state of the key."""
    now = at or timezone.now()
    return {
        KeyState.DELETED: Q(is_deleted=True),
        KeyState.OWNER_DELETED: Q(owner__is_deleted=True),
        KeyState.OWNER_INACTIVE: Q(owner__is_active=False),
        KeyState.LOCKED: Q(locked_time__isnull=False),
        KeyState.EXPIRED: Q(expiry__lte=now),
        KeyState.NOT_YET_VALID: Q(not_before__gt=now),
    }


class ApiKeyQuerySet(models.QuerySet[Row]):
    def with_state(self, at: datetime | None = None) -> Self:
        """Keys with their KeyState at a moment (default: now) as `key_state`."""
        cases = [When(condition, then=Value(state.value)) for state, condition in _refusals(at).items()]
        return self.annotate(key_state=Case(*cases, default=Value(KeyState.USABLE.value)))

    def state_of(self, key_id: int) -> KeyState:
        """The current state of one key; raises DoesNotExist."""
        return KeyState(self.with_state().values_list("key_state", flat=True).get(pk=key_id))

    def live(self) -> Self:
        """Keys that are not deleted, whether they can be used or not."""
        return self.filter(is_deleted=False)

    def usable(self, at: datetime | None = None) -> Self:
        """Keys that may send work at a moment (default: now); their owners are usable too."""
        # exclude() keeps rows without an expiry: those keys never expire. Not with_state(): no index could be used.
        return self.exclude(reduce(or_, _refusals(at).values()))

    def expired(self, at: datetime | None = None) -> Self:
        """Keys whose expiry has passed at a moment (default: now), whatever their state."""
        return self.filter(_refusals(at)[KeyState.EXPIRED])

    def expiring(self, at: datetime | None = None) -> Self:
        """Keys that may send work at a moment (default: now), and expire within SOON of it."""
        return self.usable(at).filter(expiry__lte=(at or timezone.now()) + SOON)

    def unexpired(self, at: datetime | None = None) -> Self:
        """Keys whose expiry has not passed at a moment (default: now), whatever their state."""
        return self.exclude(_refusals(at)[KeyState.EXPIRED])

    def containing(self, text: str) -> Self:
        """Keys with this text in the name, an id, or the name of the owner, in any case."""
        names = Q(name__icontains=text) | Q(public_id__icontains=text) | Q(former_public_id__icontains=text)
        # Not owner__name_key: each key would be joined with its owner, which takes longer than all else.
        return self.filter(names | Q(owner__in=User.objects.filter(name_key__icontains=text).values("pk")))

    def with_public_id(self, *public_ids: str) -> Self:
        """Keys that have one of these ids, or had it before they were rotated."""
        return self.filter(Q(public_id__in=public_ids) | Q(former_public_id__in=public_ids))

    def shown(self) -> Self:
        """Keys with the owner, the creator and the provider that lists show, in one query."""
        return self.select_related("owner", "created_by", "provider")

    def with_owner(self) -> Self:
        """Keys with their owner and the owner's roles, in two queries."""
        return self.select_related("owner").prefetch_related("owner__roles")

    def of(self, user: User) -> Self:
        """Keys that the user owns."""
        return self.filter(owner=user)

    def of_accounts_of(self, group_ids: Collection[int]) -> Self:
        """Keys of the service accounts that these groups own."""
        return self.filter(owner__owning_group__in=group_ids)
