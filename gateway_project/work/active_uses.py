"""The active uses that one process knows of: members with a request in flight, or with one a moment ago."""

from collections import defaultdict
from dataclasses import dataclass, field

from gateway_project.work.limits import DAY, LimitCheck, days_around, window_begin


@dataclass(slots=True)
class Use:
    """One member's use: its requests in flight, and the moment until which it lives without any."""

    flying: set[str] = field(default_factory=set)
    until: float = 0.0

    def lives(self, now: float) -> bool:
        return bool(self.flying) or self.until > now


class ActiveUses:
    """By the name of a check and its member. Not locked, as the Counters that they belong to."""

    def __init__(self) -> None:
        self._uses: defaultdict[str, dict[str, Use]] = defaultdict(dict)
        self._peaks: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def take(self, check: LimitCheck, token: str, now: float) -> None:
        """A member is at work: until the request of this token ends, or without one up to now."""
        use = self._use(check)
        use.until = max(use.until, now + check.window_seconds)
        if token:
            use.flying.add(token)
        self._note_peak(check.name, now)

    def mirror(self, check: LimitCheck, token: str) -> None:
        """The request of this token has its use of Redis."""
        self._use(check).flying.add(token)

    def end(self, check: LimitCheck, token: str, now: float) -> None:
        """The request of this token has ended; the use lives on for its time."""
        use = self._uses[check.name].get(check.member)
        if use is not None and token in use.flying:
            use.flying.discard(token)
            use.until = now + check.window_seconds

    def has(self, check: LimitCheck) -> bool:
        """Whether the member has a use."""
        return check.member in self._uses[check.name]

    def flies(self, check: LimitCheck) -> bool:
        """Whether a request of the member is in flight."""
        use = self._uses[check.name].get(check.member)
        return use is not None and bool(use.flying)

    def known(self, name: str) -> int:
        """How many uses there are, those that are over among them as long as nobody has looked."""
        return len(self._uses[name])

    def live(self, name: str, now: float) -> int:
        """How many uses are live."""
        uses = self._uses[name]
        for member in [member for member, use in uses.items() if not use.lives(now)]:
            del uses[member]
        return len(uses)

    def peaks(self, name: str) -> dict[int, int]:
        """The most uses that were live at one moment of each of the last days, by its first second."""
        return dict(self._peaks[name])

    def reset_seconds(self, name: str, now: float) -> int:
        """When the next use lapses, of those without a request in flight."""
        ends = [use.until for use in self._uses[name].values() if not use.flying]
        return max(int(min(ends, default=now) - now), 0) + 1

    def tidy(self, now: float) -> None:
        """Let go of uses that have lapsed."""
        for name in [name for name in self._uses if not self.live(name, now)]:
            del self._uses[name]

    def _use(self, check: LimitCheck) -> Use:
        uses = self._uses[check.name]
        use = uses.get(check.member)
        if use is None:
            use = uses[check.member] = Use()
        return use

    def _note_peak(self, name: str, now: float) -> None:
        """Uses grow nowhere but where one is taken."""
        peaks, today = self._peaks[name], window_begin(DAY, now)
        if len(self._uses[name]) > peaks.get(today, 0):
            peaks[today] = max(self.live(name, now), peaks.get(today, 0))
            for day in peaks.keys() - set(days_around(now)):
                del peaks[day]
