"""The counts and leases of one process: all of them without Redis, or this process's share while Redis is down."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gateway_project.work.limits.checks import (
    COUNT,
    GRACE_SECONDS,
    LEASE,
    RESERVE,
    SPREAD_SECONDS,
    USE,
    Admission,
    CheckStatus,
    Hold,
    LimitCheck,
    LostCount,
    Reading,
    Settlement,
    window_begin,
    window_end,
)
from gateway_project.work.state.active_uses import ActiveUses
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.figures import Figures
from gateway_project.work.state.redis_counts import RedisCounts

# A request ends at once, waits for the answer of an identical one, or calls a provider.
ENDS_AT_ONCE, WAITS, CALLS_PROVIDER = 0, 1, 2


@dataclass(slots=True)
class Count:
    """What was used and what is reserved in one window; `is_lost` while what was used before `since` is not known.

    A complete count begins with its window, a share's when it was first needed. `reservations` are by token,
    and `reserved` their sum; `early` is what was used here although the log will tell it too.
    """

    check: LimitCheck
    begin: int
    since: float
    is_lost: bool = False
    usage: int = 0
    early: int = 0
    reserved: int = 0
    reservations: dict[str, int] = field(default_factory=dict)


NO_WINDOW = (0, 0, None)


class Counters:
    """Not thread-safe: the caller holds the lock of the state that owns them.

    `share_of` is the number of processes that share a limit while Redis is down: each admits its part of what was left
    when Redis last replied. A share never waits for a lost count.
    """

    def __init__(self, *, share_of: int | None = None, clock: Clock | None = None) -> None:
        self.share_of = share_of
        self.clock = clock or Clock()
        self.started_at = self.clock.now()
        self._removed_before = 0.0  # counts of windows that ended earlier; they may come back if the clock is set back
        self._counts: dict[tuple[str, int], Count] = {}  # by name and begin of the window
        self._latest: dict[str, tuple[int, int, Count]] = {}  # begin and end of the window that was asked for last
        self.redis_counts = RedisCounts()
        self._leases: defaultdict[str, set[str]] = defaultdict(set)
        self.uses = ActiveUses()

    # -- In the order of an admission -------------------------------------------------------------------

    def check(self, checks: Sequence[LimitCheck], token: str, now: float, *, ignore_lost: bool) -> Admission:
        """Check the limits that apply even to a cached answer; with `ignore_lost` lost counts are taken as they are."""
        if not ignore_lost and (lost_counts := self.lost_counts(checks, now)):
            return Admission([], lost=lost_counts)
        return Admission([], self._find_exhausted(checks, token, now), at=now)

    def check_candidates(
        self,
        admission: Admission,
        checks: Sequence[LimitCheck],
        candidate_checks: Sequence[Sequence[LimitCheck]],
        token: str,
        now: float,
        *,
        ignore_lost: bool,
    ) -> None:
        """Check for room to call a provider, and choose the first candidate whose limits have room."""
        if not ignore_lost:
            admission.lost = self.lost_counts([check for choice in candidate_checks for check in choice], now)
        admission.refused = self._without_room(checks, now)
        if admission.is_rejected or not candidate_checks:
            return
        full: list[CheckStatus] = []
        for number, choice in enumerate(candidate_checks):
            statuses = self._find_exhausted(choice, token, now) or self._without_room(choice, now)
            if statuses is None:
                admission.choice, admission.full = number, full
                return
            full.append(statuses)
        admission.refused = min(full, key=lambda statuses: statuses.reset_seconds)

    def take(self, admission: Admission, checks: Iterable[LimitCheck], token: str, mode: int, now: float) -> None:
        """Count an admitted request."""
        admission.at = now
        for check in checks:
            hold = self._take(check, token, mode, now)
            if hold is not None:
                admission.holds.append(hold)

    def read_checks(self, admission: Admission, checks: Sequence[LimitCheck], now: float) -> list[Reading]:
        """These limits as they are, and those without room; nothing may have been taken yet."""
        readings = [self.read_check(check, now) for check in checks]
        if admission.refused is None and not admission.full:
            return readings
        refused = () if admission.refused is None else (admission.refused,)
        short = [status.check for status in (*admission.full, *refused) if status.check not in checks]
        return [*readings, *(self.read_check(check, now) for check in short)]

    def statuses(self, checks: Iterable[LimitCheck], now: float) -> list[CheckStatus]:
        """The current status of each."""
        return [self._status(check, now) for check in checks]

    def settle(self, settlement: Settlement, *, counted_in_redis: bool = False) -> None:
        """Give back what a request held, and count what it used, unless Redis has counted that."""
        for hold, amount in zip(settlement.holds, settlement.amounts, strict=True):
            check = hold.check
            if check.kind == LEASE:
                self._leases[check.name].discard(settlement.token)
            elif check.kind == USE:
                self.uses.end(check, settlement.token, self.clock.now())
            else:
                self._settle_count(hold, amount, settlement, counted_in_redis=counted_in_redis)

    def total_if_known(self, check: LimitCheck, now: float) -> int | None:
        """What is used and held; None if nothing has been counted, or the count was lost and not rebuilt."""
        if check.since:
            count = self._counts.get((check.name, window_begin(check.window_seconds, now)))
            if count is None or count.is_lost or count.check.set_at < check.set_at:
                return None
        return self._total(check, now)

    def is_lost(self, lost_count: LostCount) -> bool:
        """Whether this lost count has not been rebuilt yet and its window is the current one."""
        count = self._counts.get((lost_count.check.name, lost_count.begin))
        return count is not None and count.is_lost and count.since == lost_count.until

    def rebuild(self, lost_count: LostCount, usage: int) -> None:
        """Add to a lost count what the log says was used."""
        if self.is_lost(lost_count):
            count = self._counts[lost_count.check.name, lost_count.begin]
            count.usage += usage - count.early
            count.is_lost, count.early = False, 0

    # -- For those who only look -------------------------------------------------------------------------

    def excerpt(self, checks: Iterable[LimitCheck], now: float) -> "Counters":
        """A copy of what is known of these checks; changes of the copy affect nothing else."""
        excerpt = Counters(share_of=self.share_of, clock=self.clock)
        excerpt.started_at, excerpt._removed_before = self.started_at, self._removed_before
        excerpt.redis_counts = self.redis_counts
        for check in checks:
            excerpt.put(check, self._figures(check, now), now)
        return excerpt

    def put(self, check: LimitCheck, figures: Figures, now: float) -> None:
        """Replace what is known of a check by these figures."""
        begin = window_begin(check.window_seconds, now)
        if check.kind == LEASE:
            self._leases[check.name] = set(map(str, range(figures.usage)))
        elif check.kind == USE:
            self.uses.put(check, figures)
        elif figures.since is not None:
            usage, reserved, _, is_lost, set_at, early, *_ = figures
            count = Count(check._replace(set_at=set_at), begin, figures.since, is_lost, usage, early, reserved)
            self._counts[check.name, begin] = count
            self._latest.pop(check.name, None)

    def lost_counts(self, checks: Iterable[LimitCheck], now: float) -> list[LostCount]:
        """Those of these counts that have to be rebuilt first."""
        windowed = ((check, self._count(check, now)) for check in checks if check.since)
        return [
            LostCount(check, count.begin, count.since, self._is_whole(check))
            for check, count in windowed
            if count.is_lost
        ]

    def read_check(self, check: LimitCheck, now: float) -> Reading:
        """The check as it is now. For leases and uses the reset is 1 s: the real one takes long to find."""
        amount = check.amount if self.share_of is None else self._amount(check, now)
        if check.kind in (LEASE, USE):
            usage = self._usage(check, now)
            return Reading(check, usage, 0, amount - usage, 1)
        count = self._count(check, now)
        usage, reserved, end = count.usage, count.reserved, self._latest[check.name][1]
        return Reading(check, usage, reserved, amount - usage - reserved, end - int(now))

    def _figures(self, check: LimitCheck, now: float) -> Figures:
        if check.kind == LEASE:
            return Figures(len(self._leases.get(check.name, ())))
        if check.kind == USE:
            return self.uses.figures(check, now)
        count = self._counts.get((check.name, window_begin(check.window_seconds, now)))
        if count is None:
            return Figures()
        return Figures(count.usage, count.reserved, count.since, count.is_lost, count.check.set_at, count.early)

    # -- While Redis is up, and when it comes back ------------------------------------------------------

    def mirror(self, token: str, holds: Iterable[Hold]) -> None:
        """Remember the leases that a request took in Redis: this process holds them even when Redis goes down."""
        for hold in holds:
            if hold.check.kind == LEASE:
                self._leases[hold.check.name].add(token)
            elif hold.check.kind == USE:
                self.uses.mirror(hold.check, token)

    def hand_over(self) -> list[Count]:
        """The counts made here since the last hand-over, for Redis to add, which is assumed to have them now."""
        counts = [replace(count) for count in self._counts.values() if count.usage]
        for count in counts:
            self.redis_counts.add(count.check, count.begin, count.usage)
            self._counts[count.check.name, count.begin].usage = 0
        return counts

    def take_back(self, counts: Iterable[Count]) -> None:
        """Undo hand_over(): Redis did not get these counts."""
        for count in counts:
            now = self._counts.get((count.check.name, count.begin))
            if now is not None:
                now.usage += count.usage
                self.redis_counts.add(count.check, count.begin, -count.usage)

    def tidy(self, now: float) -> None:
        """Remove counts of windows that are over, empty sets of leases, and expired uses."""
        over = now - GRACE_SECONDS  # until then they may still be handed over to Redis
        self._removed_before = max(self._removed_before, over)
        self._latest.clear()
        for key, count in list(self._counts.items()):
            if window_end(count.check.window_seconds, count.begin) < over:
                del self._counts[key]
        self.redis_counts.tidy(over)
        for name in [name for name, tokens in self._leases.items() if not tokens]:
            del self._leases[name]
        self.uses.tidy(now)

    # -- Internal ---------------------------------------------------------------------------------------

    def _is_whole(self, check: LimitCheck) -> bool:
        return check.set_at > self.started_at * 1000

    def _find_exhausted(self, checks: Iterable[LimitCheck], token: str, now: float) -> CheckStatus | None:
        """The first limit that is used up."""
        for check in checks:
            kind, amount = check.kind, check.amount if self.share_of is None else self._amount(check, now)
            if kind == COUNT:
                full = self._count(check, now).usage + check.take > amount
            elif kind == RESERVE:
                full = self._count(check, now).usage >= amount
            else:
                usage = self._usage(check, now)
                full = 0 < amount <= usage and not self._already_holds(check, token, now)
            if full:
                return self._status(check, now)
        return None

    def _without_room(self, checks: Iterable[LimitCheck], now: float) -> CheckStatus | None:
        """The first limit without room for the reservation."""
        for check in checks:
            if check.kind == RESERVE and self._room(check, now) < check.minimum:
                return self._status(check, now)
        return None

    def _count(self, check: LimitCheck, now: float) -> Count:
        begin, end, count = self._latest.get(check.name) or NO_WINDOW
        if count is not None and begin <= now < end and count.check.set_at >= check.set_at:
            return count
        begin = window_begin(check.window_seconds, now)
        count = self._counts.get((check.name, begin))
        if count is None:
            count = self._counts[check.name, begin] = self._begin(check, begin, now)
        elif count.check.set_at < check.set_at:
            new = replace(self._begin(check, begin, now), reserved=count.reserved, reservations=count.reservations)
            count = self._counts[check.name, begin] = new
        self._latest[check.name] = begin, window_end(check.window_seconds, begin), count
        return count

    def _begin(self, check: LimitCheck, begin: int, now: float) -> Count:
        if self.share_of is not None:
            return Count(check, begin, now)
        is_complete = not check.since or self._has_counted(check, begin)
        return Count(check, begin, begin if is_complete else now, not is_complete)

    def _has_counted(self, check: LimitCheck, begin: int) -> bool:
        """Whether all of a window was counted here, or would have been: nothing was removed of it."""
        is_removed = window_end(check.window_seconds, begin) < self._removed_before
        return max(self.started_at, check.since + SPREAD_SECONDS) <= begin and not is_removed

    def _usage(self, check: LimitCheck, now: float) -> int:
        if check.kind == LEASE:
            return len(self._leases[check.name])
        if check.kind == USE:
            # Expired uses are removed only when the limit would be reached.
            uses = self.uses.total(check.name)
            return uses if uses < self._amount(check, now) or not check.amount else self.uses.live(check.name, now)
        return self._count(check, now).usage

    def _total(self, check: LimitCheck, now: float) -> int:
        if check.kind != RESERVE:
            return self._usage(check, now)
        count = self._count(check, now)
        return count.usage + count.reserved

    def _already_holds(self, check: LimitCheck, token: str, now: float) -> bool:
        if check.kind == LEASE:
            return token in self._leases[check.name]
        return self.uses.has(check)

    def _status(self, check: LimitCheck, now: float) -> CheckStatus:
        return CheckStatus(check, self._room(check, now), self._reset(check, now))

    def _room(self, check: LimitCheck, now: float) -> int:
        return self._amount(check, now) - self._total(check, now)

    def _amount(self, check: LimitCheck, now: float) -> int:
        """The limit, or this process's share of what was left of it when Redis last replied."""
        if self.share_of is None:
            return check.amount
        if check.kind in (LEASE, USE):
            return max(check.amount // self.share_of, min(check.amount, 1))
        rest = max(check.amount - self.redis_counts.usage(check, window_begin(check.window_seconds, now)), 0)
        # A share of a limit of requests per minute is at least 1; a share of a quota may be 0.
        minimum = 0 if check.since or check.kind == RESERVE else 1
        return max(rest // self.share_of, min(rest, minimum))

    def _reset(self, check: LimitCheck, now: float) -> int:
        if check.kind in (COUNT, RESERVE):
            return window_end(check.window_seconds, window_begin(check.window_seconds, now)) - int(now)
        if check.kind == USE:
            return self.uses.reset_seconds(check.name, now)
        return 1

    def _take(self, check: LimitCheck, token: str, mode: int, now: float) -> Hold | None:
        if check.kind == COUNT:
            count = self._count(check, now)
            count.usage += check.take
            is_held = check.since and (mode != ENDS_AT_ONCE or count.is_lost)
            return Hold(check, check.take, count.begin, max(now, count.since)) if is_held else None
        if check.kind == RESERVE:
            return self._reserve(check, token, now) if mode == CALLS_PROVIDER else None
        if check.kind == USE:
            self.uses.take(check, token if mode != ENDS_AT_ONCE else "", now)
        elif mode != ENDS_AT_ONCE:
            self._leases[check.name].add(token)
        return Hold(check) if mode != ENDS_AT_ONCE else None

    def _reserve(self, check: LimitCheck, token: str, now: float) -> Hold:
        count = self._count(check, now)
        take = min(check.take, self._amount(check, now) - count.usage - count.reserved)
        count.reserved += take
        count.reservations[token] = count.reservations.get(token, 0) + take
        return Hold(check, take, count.begin, max(now, count.since))

    def _settle_count(self, hold: Hold, amount: int, settlement: Settlement, *, counted_in_redis: bool) -> None:
        count = self._counts.get((hold.check.name, hold.begin))
        if count is None and not counted_in_redis:
            count = self._begin_share(hold)
        if count is None:
            return
        count.reserved -= count.reservations.pop(settlement.token, 0)
        if counted_in_redis:
            return
        before = hold.take if hold.check.kind == COUNT and self._was_counted(hold, count) else 0
        count.usage += amount - before
        if count.is_lost and count.since >= settlement.ended:
            count.early += amount

    def _begin_share(self, hold: Hold) -> Count | None:
        """A count for usage that Redis cannot get now; None if the log will have it, or if its window is over."""
        now = self.clock.now()
        if self.share_of is None or hold.begin != window_begin(hold.check.window_seconds, now):
            return None
        return self._count(hold.check, now)

    def _was_counted(self, hold: Hold, count: Count) -> bool:
        """Whether the request was counted when it was admitted, here or in Redis."""
        return not hold.is_late if self.share_of is not None else count.since <= hold.admitted
