"""Active uses: the users at work, as the licence counts them."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from gateway_project.work.limits import USE, LimitCheck
from gateway_project.work.snapshot import Caller, Snapshot
from gateway_project.work.state import SharedState
from licensing import services
from licensing.statistics import Uses

NAME = "uses"


def check_of(caller: Caller, snapshot: Snapshot) -> LimitCheck:
    """What a request takes of the licence: the use of its user, who may have one already."""
    return _check(caller.id, snapshot.terms.max_active_uses, snapshot.terms.active_use_life_time)


@lru_cache(maxsize=4096)  # it is the same for each request of a user
def _check(user_id: int, most: int, life_seconds: int) -> LimitCheck:
    return LimitCheck(NAME, most, life_seconds, USE, member=str(user_id))


def uses_of(state: SharedState) -> Uses:
    """How many uses are live in all processes, and the most of each of the last days."""
    peaks = {datetime.fromtimestamp(begin, UTC).date(): most for begin, most in state.peaks(NAME).items()}
    return Uses(state.uses(NAME), peaks)


def keeping_peaks(state: SharedState) -> Callable[[], None]:
    """The chore that writes the days' peaks down. Every peak is in the shared state until it is old: none is missed."""
    written: Uses | None = None

    def keep_peaks() -> None:
        nonlocal written
        uses = uses_of(state)
        if uses != written:
            services.note_peaks(uses, datetime.now(UTC).date())
            written = uses

    return keep_peaks
