"""Active uses: their present number, and the peak of each day."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from gateway_project.hooks import Hook


class Uses(NamedTuple):
    """The shared state's numbers: the uses that are live now, and the peaks by day (UTC)."""

    current: int
    peaks: Mapping[date, int]

    def peaks_with_current(self, today: date) -> dict[date, int]:
        """The peaks, today's at least the present number: uses that last over midnight count for the new day too."""
        return {**self.peaks, today: max(self.current, self.peaks.get(today, 0))}


# The active uses of all processes.
count_active_uses: Hook[[], Uses] = Hook("count_active_uses")


def daily_peaks(peaks: Iterable[tuple[date, int]], uses: Uses, today: date, days: int) -> list[dict[str, date | int]]:
    """{date, peakUse} of each of the last days up to today, oldest first; 0 for days without uses."""
    highest: dict[date, int] = dict(peaks)
    for day, peak in uses.peaks_with_current(today).items():
        highest[day] = max(peak, highest.get(day, 0))
    period = [today - timedelta(days=back) for back in reversed(range(days))]
    return [{"date": day, "peakUse": highest.get(day, 0)} for day in period]
