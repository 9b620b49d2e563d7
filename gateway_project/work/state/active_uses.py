"""The active uses that one process knows: members with a request in flight or a recent one."""

from collections import defaultdict
from dataclasses import dataclass, field

from gateway_project.work.limits.checks import DAY, LimitCheck, days_around, window_begin
from gateway_project.work.state.figures import Figures


@dataclass(slots=True)
class Use:
    """One member's use: the tokens of its requests in flight, and when it expires without any."""

    in_flight: set[str] = field(default_factory=set)
    until: float = 0.0

    def is_live(self, now: float) -> bool:
        return bool(self.in_flight) or self.until > now


class ActiveUses:
    """Uses by the name of a check and its member. Not locked: the owner of the Counters holds the lock."""

    def __init__(self) -> None:
        self._uses: defaultdict[str, dict[str, Use]] = defaultdict(dict)
        self._peaks: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def take(self, check: LimitCheck, token: str, now: float) -> None:
        """Begin or extend a member's use: for the request of this token, or without a token for one that ended now."""
        uses = self._uses[check.name]
        use = uses.get(check.member) or self._use(check)
        use.until = max(use.until, now + check.window_seconds)
        if token:
            use.in_flight.add(token)
        # The only place where their number grows.
        if len(uses) > self._peaks[check.name].get(int(now) // DAY * DAY, 0):
            self._note_peak(check.name, now)

    def mirror(self, check: LimitCheck, token: str) -> None:
        """Note that the request of this token has taken its use in Redis."""
        self._use(check).in_flight.add(token)

    def end(self, check: LimitCheck, token: str, now: float) -> None:
        """End the request of this token; the use stays live for its lifetime."""
        use = self._uses[check.name].get(check.member)
        if use is not None and token in use.in_flight:
            use.in_flight.discard(token)
            use.until = now + check.window_seconds

    def has(self, check: LimitCheck) -> bool:
        """Whether the member has a use."""
        return check.member in self._uses[check.name]

    def is_in_flight(self, check: LimitCheck) -> bool:
        """Whether a request of the member is in flight."""
        use = self._uses[check.name].get(check.member)
        return use is not None and bool(use.in_flight)

    def total(self, name: str) -> int:
        """The number of uses, including expired ones that have not been removed yet."""
        return len(self._uses[name])

    def live(self, name: str, now: float) -> int:
        """The number of live uses; expired ones are removed."""
        uses = self._uses[name]
        for member in [member for member, use in uses.items() if not use.is_live(now)]:
            del uses[member]
        return len(uses)

    def peaks(self, name: str) -> dict[int, int]:
        """The peak number of live uses of each of the last days, by the day's first second."""
        return dict(self._peaks[name])

    def reset_seconds(self, name: str, now: float) -> int:
        """Seconds until the next use expires, of those without a request in flight."""
        ends = [use.until for use in self._uses[name].values() if not use.in_flight]
        return max(int(min(ends, default=now) - now), 0) + 1

    def figures(self, check: LimitCheck, now: float) -> Figures:
        """What is known of a check; see put()."""
        live, ends_at = self.live(check.name, now), now + self.reset_seconds(check.name, now)
        return Figures(live, is_member=self.has(check), ends_at=ends_at)

    def put(self, check: LimitCheck, figures: Figures) -> None:
        """Have as many uses as these figures say, one of them the member's if it has one."""
        others = (f"other {number}" for number in range(figures.usage - figures.is_member))
        members = (*others, *((check.member,) if figures.is_member else ()))
        self._uses[check.name] = {member: Use(until=figures.ends_at) for member in members}

    def tidy(self, now: float) -> None:
        """Remove expired uses."""
        for name in [name for name in self._uses if not self.live(name, now)]:
            del self._uses[name]

    def _use(self, check: LimitCheck) -> Use:
        uses = self._uses[check.name]
        use = uses.get(check.member)
        if use is None:
            use = uses[check.member] = Use()
        return use

    def _note_peak(self, name: str, now: float) -> None:
        """Update today's peak, for which expired uses do not count."""
        peaks, today = self._peaks[name], window_begin(DAY, now)
        peaks[today] = max(self.live(name, now), peaks.get(today, 0))
        for day in peaks.keys() - set(days_around(now)):
            del peaks[day]
