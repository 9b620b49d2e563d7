"""The active uses of all processes, and their daily peaks, for the licence's statistics."""

from collections.abc import Callable
from datetime import UTC, datetime

from gateway_project.work.limits.active_uses import NAME
from gateway_project.work.state.shared import SharedState
from licensing import services
from licensing.statistics import Uses


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
