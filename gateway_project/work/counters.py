"""The counts and leases of one process: all there are where there is no Redis, and its share while Redis is away."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gateway_project.work.active_uses import ActiveUses
from gateway_project.work.clock import Clock
from gateway_project.work.limits import (
    COUNT,
    DAY,
    GRACE_SECONDS,
    LEASE,
    MINUTE,
    MONTH,
    RESERVE,
    SPREAD_SECONDS,
    USE,
    Admission,
    Hold,
    LimitCheck,
    Lost,
    Settlement,
    Standing,
    window_begin,
    window_end,
)

# A request ends at once, waits for the answer that another is getting, or asks a provider.
AT_ONCE, WAITS, ASKS = 0, 1, 2


@dataclass(slots=True)
class Count:
    """What was used in one window, and what is held in it; `lost` while what came before `since` is not known.

    A count that is complete has been counted since its window began, a share since it was first asked for.
    """

    check: LimitCheck
    begin: int
    since: float
    lost: bool = False
    used: int = 0
    held: int = 0


class Counters:
    """Not locked: whoever calls holds the lock of the state that these belong to.

    With `share_of` so many processes it is one's share: a part of what was left when Redis was last heard of. A share
    never waits for a count that was lost.
    """

    def __init__(self, *, share_of: int | None = None, clock: Clock | None = None) -> None:
        self.share_of = share_of
        self.clock = clock or Clock()
        self.begun = self.clock.now()
        self._counts: dict[str, Count] = {}
        self._known: dict[str, tuple[float, int, int]] = {}
        self._leases: defaultdict[str, set[str]] = defaultdict(set)
        self.uses = ActiveUses()

    # -- Asked, in the order of an admission ------------------------------------------------------------

    def ask(self, checks: Sequence[LimitCheck], token: str, now: float, *, blind: bool) -> Admission:
        """Whether these limits let a request in, whatever becomes of it; blind to what is not known."""
        if not blind and (lost := self._lost(checks, now)):
            return Admission([], lost=lost)
        refused = self._used_up(checks, token, now)
        return Admission(self.stand(checks, now) if refused else [], refused)

    def ask_candidates(
        self,
        admission: Admission,
        checks: Sequence[LimitCheck],
        choices: Sequence[Sequence[LimitCheck]],
        token: str,
        now: float,
        *,
        blind: bool,
    ) -> None:
        """Whether there is room for what a provider is asked for, and the first of the candidates that has some."""
        if not blind:
            admission.lost = self._lost([check for choice in choices for check in choice], now)
        admission.refused = self._short(checks, now)
        if admission.refused:
            admission.standing = self.stand(checks, now)
        if admission.turned_away or not choices:
            return
        full = []
        for number, choice in enumerate(choices):
            standing = self._used_up(choice, token, now) or self._short(choice, now)
            if standing is None:
                admission.choice, admission.full = number, full
                return
            full.append(standing)
        admission.refused = min(full, key=lambda standing: standing.reset_seconds)
        admission.standing = self.stand(checks, now)

    def take(self, admission: Admission, checks: Iterable[LimitCheck], token: str, mode: int, now: float) -> None:
        """Count a request that nothing refuses."""
        for check in checks:
            hold = self._take(check, token, mode, now)
            if hold is not None:
                admission.holds.append(hold)
            admission.standing.append(self._stands(check, now))

    def stand(self, checks: Iterable[LimitCheck], now: float) -> list[Standing]:
        """How these limits stand."""
        return [self._stands(check, now) for check in checks]

    def settle(self, settlement: Settlement, *, elsewhere: bool = False) -> None:
        """Give back what a request held, and count what it came to, unless that was counted elsewhere."""
        for hold, amount in zip(settlement.holds, settlement.amounts, strict=True):
            check = hold.check
            if check.kind == LEASE:
                self._leases[check.name].discard(settlement.token)
            elif check.kind == USE:
                self.uses.end(check, settlement.token, self.clock.now())
            else:
                self._settle_count(hold, amount, settlement.ended, elsewhere=elsewhere)

    def known_total(self, check: LimitCheck, now: float) -> int | None:
        """What is used and held of it; None where nothing has been counted, or what was lost is not rebuilt."""
        if check.since:
            count = self._counts.get(check.name)
            if count is None or count.lost or count.check.set_at < check.set_at:
                return None
            if count.begin != window_begin(check.window_seconds, now):
                return None
        return self._total(check, now)

    def is_lost(self, lost: Lost) -> bool:
        """Whether a count that was lost is not rebuilt yet, and still counts for something."""
        count = self._counts.get(lost.check.name)
        return count is not None and count.lost and (count.begin, count.since) == (lost.begin, lost.until)

    def rebuild(self, lost: Lost, used: int) -> None:
        """What the log tells about a count that was lost."""
        if self.is_lost(lost):
            count = self._counts[lost.check.name]
            count.used += used
            count.lost = False

    # -- While Redis is there, and when it comes back -----------------------------------------------------

    def know(self, standing: Iterable[Standing], now: float) -> None:
        """How the limits stood in Redis at a moment."""
        for check, left, _ in standing:
            if check.kind in (COUNT, RESERVE):
                self._known[check.name] = now, check.amount - left, check.window_seconds

    def mirror(self, token: str, holds: Iterable[Hold]) -> None:
        """The leases that a request took of Redis: they are this process's, also when Redis goes away."""
        for hold in holds:
            if hold.check.kind == LEASE:
                self._leases[hold.check.name].add(token)
            elif hold.check.kind == USE:
                self.uses.mirror(hold.check, token)

    def hand_over(self) -> list[Count]:
        """What was counted here since it was last handed over, for Redis to add; from now on it counts as known."""
        made = [replace(count) for count in self._counts.values() if count.used]
        for count in made:
            known = self._used_elsewhere(count.check, count.begin)
            self._known[count.check.name] = (count.begin, count.used + known, count.check.window_seconds)
            self._counts[count.check.name].used = 0
        return made

    def take_back(self, made: Iterable[Count]) -> None:
        """What was handed over did not arrive."""
        for count in made:
            now = self._counts[count.check.name]
            if now.begin == count.begin:
                now.used += count.used
                known = self._known[count.check.name][1] - count.used
                self._known[count.check.name] = (count.begin, known, count.check.window_seconds)

    def tidy(self, now: float) -> None:
        """Let go of windows that are over, of leases that were given back, and of uses that have lapsed."""
        over = now - GRACE_SECONDS  # Redis may be told of them up to then
        begins = {seconds: window_begin(seconds, over) for seconds in (MINUTE, DAY, MONTH)}
        for name, count in list(self._counts.items()):
            if window_end(count.check.window_seconds, count.begin) < over:
                del self._counts[name]
        for name, (at, _, seconds) in list(self._known.items()):
            if at < begins.get(seconds, 0):
                self._known.pop(name)
        for name in [name for name, tokens in self._leases.items() if not tokens]:
            del self._leases[name]
        self.uses.tidy(now)

    # -- Inside -----------------------------------------------------------------------------------------

    def _lost(self, checks: Iterable[LimitCheck], now: float) -> list[Lost]:
        """The counts among these that have to be rebuilt first."""
        windowed = ((check, self._count(check, now)) for check in checks if check.since)
        return [Lost(check, count.begin, count.since) for check, count in windowed if count.lost]

    def _used_up(self, checks: Iterable[LimitCheck], token: str, now: float) -> Standing | None:
        """The first limit that lets nobody in."""
        for check in checks:
            used, amount = self._used(check, now), self._amount(check, now)
            if check.kind == COUNT:
                full = used + check.take > amount
            elif check.kind == RESERVE:
                full = used >= amount
            else:
                full = 0 < amount <= used and not self._has(check, token, now)
            if full:
                return self._stands(check, now)
        return None

    def _short(self, checks: Iterable[LimitCheck], now: float) -> Standing | None:
        """The first limit without room for what is to be reserved."""
        for check in checks:
            if check.kind == RESERVE and self._room(check, now) < check.least:
                return self._stands(check, now)
        return None

    def _count(self, check: LimitCheck, now: float) -> Count:
        begin = window_begin(check.window_seconds, now)
        count = self._counts.get(check.name)
        if count is None or count.begin != begin:
            count = self._counts[check.name] = self._begin(check, begin, now)
        elif count.check.set_at < check.set_at:
            count = self._counts[check.name] = replace(self._begin(check, begin, now), held=count.held)
        return count

    def _begin(self, check: LimitCheck, begin: int, now: float) -> Count:
        if self.share_of is not None:
            return Count(check, begin, now)
        known = not check.since or max(self.begun, check.since + SPREAD_SECONDS) <= begin
        return Count(check, begin, begin if known else now, not known)

    def _used(self, check: LimitCheck, now: float) -> int:
        if check.kind == LEASE:
            return len(self._leases[check.name])
        if check.kind == USE:
            # Those that are over are looked for where it matters.
            found = self.uses.known(check.name)
            return found if found < self._amount(check, now) or not check.amount else self.uses.live(check.name, now)
        return self._count(check, now).used

    def _total(self, check: LimitCheck, now: float) -> int:
        held = self._count(check, now).held if check.kind == RESERVE else 0
        return self._used(check, now) + held

    def _has(self, check: LimitCheck, token: str, now: float) -> bool:
        if check.kind == LEASE:
            return token in self._leases[check.name]
        return self.uses.has(check)

    def _stands(self, check: LimitCheck, now: float) -> Standing:
        return Standing(check, self._room(check, now), self._reset(check, now))

    def _room(self, check: LimitCheck, now: float) -> int:
        return self._amount(check, now) - self._total(check, now)

    def _amount(self, check: LimitCheck, now: float) -> int:
        """The limit, or this process's share of what was left of it when Redis was last heard of."""
        if self.share_of is None:
            return check.amount
        if check.kind in (LEASE, USE):
            return max(check.amount // self.share_of, min(check.amount, 1))
        rest = max(check.amount - self._used_elsewhere(check, window_begin(check.window_seconds, now)), 0)
        # A share of a minute's requests is never nothing; that of a quota may be.
        least = 0 if check.since or check.kind == RESERVE else 1
        return max(rest // self.share_of, min(rest, least))

    def _used_elsewhere(self, check: LimitCheck, begin: int) -> int:
        """What Redis had counted in the window that begins then, when it was last heard of."""
        at, used, _ = self._known.get(check.name, (0, 0, 0))
        return used if at >= begin else 0

    def _reset(self, check: LimitCheck, now: float) -> int:
        if check.kind in (COUNT, RESERVE):
            return window_end(check.window_seconds, window_begin(check.window_seconds, now)) - int(now)
        if check.kind == USE:
            return self.uses.reset_seconds(check.name, now)
        return 1

    def _take(self, check: LimitCheck, token: str, mode: int, now: float) -> Hold | None:
        if check.kind == COUNT:
            count = self._count(check, now)
            count.used += check.take
            return Hold(check, check.take, count.begin, now) if check.since and mode != AT_ONCE else None
        if check.kind == RESERVE:
            return self._reserve(check, now) if mode == ASKS else None
        if check.kind == USE:
            self.uses.take(check, token if mode != AT_ONCE else "", now)
        elif mode != AT_ONCE:
            self._leases[check.name].add(token)
        return Hold(check) if mode != AT_ONCE else None

    def _reserve(self, check: LimitCheck, now: float) -> Hold:
        count = self._count(check, now)
        take = min(check.take, self._room(check, now))
        count.held += take
        return Hold(check, take, count.begin, now, local=True)

    def _settle_count(self, hold: Hold, amount: int, ended: float, *, elsewhere: bool) -> None:
        count, check = self._counts.get(hold.check.name), hold.check
        if count is None or count.begin != hold.begin:
            return  # it belongs to a window that is over
        if check.kind == RESERVE and hold.local:
            count.held -= hold.take
        if elsewhere or (check.kind == COUNT and self._was_counted(hold, count)):
            return
        if self.share_of is None and check.since and count.since >= ended:
            return  # the log tells it, for the rebuilding
        count.used += amount

    def _was_counted(self, hold: Hold, count: Count) -> bool:
        """Whether a request was counted when it was admitted, here or in Redis."""
        return not hold.is_late if self.share_of is not None else count.since <= hold.admitted
