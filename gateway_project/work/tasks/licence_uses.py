"""Active uses: the users at work, as the licence counts them."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from gateway_project.work.limits.checks import USE, LimitCheck
from gateway_project.work.snapshot.records import Caller, Snapshot
from gateway_project.work.state.shared import SharedState
from licensing import services
from licensing.statistics import Uses

NAME = "uses"


def check_of(caller: Caller, snapshot: Snapshot) -> LimitCheck:
    """The check that takes an active use for this user, who may have one already."""
    return _check(caller.id, snapshot.terms.max_active_uses, snapshot.terms.active_use_life_time)


@lru_cache(maxsize=4096)  # the same check for every request of a user
def _check(user_id: int, max_uses: int, life_seconds: int) -> LimitCheck:
    return LimitCheck(NAME, max_uses, life_seconds, USE, member=str(user_id))


def uses_of(state: SharedState) -> Uses:
    """The number of live uses in all processes, and the peak of each of the last days."""
    peaks = {datetime.fromtimestamp(begin, UTC).date(): peak for begin, peak in state.use_peaks(NAME).items()}
    return Uses(state.count_uses(NAME), peaks)


def peak_recorder(state: SharedState) -> Callable[[], None]:
    """A periodic task that stores daily peaks. The shared state keeps each peak for days, so none is missed."""
    last_uses: Uses | None = None

    def store_peaks() -> None:
        nonlocal last_uses
        uses = uses_of(state)
        if uses != last_uses:
            services.note_peaks(uses, datetime.now(UTC).date())
            last_uses = uses

    return store_peaks
