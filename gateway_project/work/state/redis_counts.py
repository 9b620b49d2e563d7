"""What Redis had counted when it last replied: what is left of it is shared among the processes while Redis is down."""

from collections.abc import Iterable

from gateway_project.work.limits.checks import (
    COUNT,
    DAY,
    MINUTE,
    MONTH,
    RESERVE,
    CheckStatus,
    LimitCheck,
    window_begin,
    window_end,
)

WINDOWED = (COUNT, RESERVE)


class RedisCounts:
    """The latest count of each limit with a window, by the limit's name."""

    def __init__(self) -> None:
        # When it was counted, how much, and the seconds of the window.
        self._counts: dict[str, tuple[float, int, int]] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def note(self, statuses: Iterable[CheckStatus], now: float) -> None:
        """Remember how much of each limit was used in Redis at this moment."""
        for check, remaining, _ in statuses:
            if check.kind in WINDOWED:
                self._counts[check.name] = now, check.amount - remaining, check.window_seconds

    def add(self, check: LimitCheck, begin: int, amount: int) -> None:
        """Assume that Redis has counted so much more in the window that begins then, unless a later one has begun."""
        at, before, _ = self._counts.get(check.name, (0.0, 0, 0))
        if at < window_end(check.window_seconds, begin):
            total = amount + (before if at >= begin else 0)
            self._counts[check.name] = (max(at, begin), total, check.window_seconds)

    def usage(self, check: LimitCheck, begin: int) -> int:
        """What Redis had counted in the window that begins then."""
        at, usage, _ = self._counts.get(check.name, (0, 0, 0))
        return usage if at >= begin else 0

    def tidy(self, end: float) -> None:
        """Forget the counts of windows that were over at this time."""
        begins = {seconds: window_begin(seconds, end) for seconds in (MINUTE, DAY, MONTH)}
        for name, (at, _, seconds) in list(self._counts.items()):
            if at < begins.get(seconds, 0):
                self._counts.pop(name)
