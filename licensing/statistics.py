"""Active uses in numbers: those of now, and the most of each day."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import NamedTuple


class Uses(NamedTuple):
    """What the shared state tells: the uses that are live now, and the most of a day (UTC) at one moment."""

    current: int
    peaks: Mapping[date, int]

    def most_of(self, today: date) -> dict[date, int]:
        """The peaks, today's with the uses of now: those that live on over midnight are uses of the new day too."""
        return {**self.peaks, today: max(self.current, self.peaks.get(today, 0))}


def daily_peaks(written: Iterable[tuple[date, int]], uses: Uses, today: date, days: int) -> list[dict[str, date | int]]:
    """{date, peakUse} of each of the last days up to today, the oldest first; 0 where nobody was at work."""
    found: dict[date, int] = dict(written)
    for day, peak in uses.most_of(today).items():
        found[day] = max(peak, found.get(day, 0))
    wanted = [today - timedelta(days=back) for back in reversed(range(days))]
    return [{"date": day, "peakUse": found.get(day, 0)} for day in wanted]
