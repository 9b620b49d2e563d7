"""The active uses of the licence, as one more limit of each request: users at work."""

from functools import lru_cache

from gateway_project.work.limits.checks import USE, LimitCheck
from gateway_project.work.snapshot.records import Caller, Snapshot

NAME = "uses"


def check_of(caller: Caller, snapshot: Snapshot) -> LimitCheck:
    """The check that takes an active use for this user, who may have one already."""
    return _check(caller.id, snapshot.terms.max_active_uses, snapshot.terms.active_use_life_time)


@lru_cache(maxsize=4096)  # the same check for every request of a user
def _check(user_id: int, max_uses: int, life_seconds: int) -> LimitCheck:
    return LimitCheck(NAME, max_uses, life_seconds, USE, member=str(user_id))
