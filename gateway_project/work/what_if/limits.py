"""Limits that a draft touches, counted again over recorded requests by the pipeline's own counters.

Only these limits are counted: the others are taken as they were.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from heapq import heappop, heappush
from itertools import chain, count
from typing import NamedTuple

from django.conf import settings

from gateway_project.env import WITHOUT_WINDOW
from gateway_project.errors import ValidationError
from gateway_project.errors.client_errors import LIMIT_ERROR_NAMES, ActiveUseLimitReached
from gateway_project.work.limits.book import LimitBook, LimitRow, Limits
from gateway_project.work.limits.checks import (
    MAX_AMOUNT,
    RESERVE,
    Admission,
    LimitCheck,
    Settlement,
    window_begin,
)
from gateway_project.work.limits.kinds import (
    COST,
    COUNT_UNPRICED,
    NANO,
    TOKENS,
    LimitDescription,
    Subject,
    unpriced_units,
)
from gateway_project.work.limits.status import in_units, usage_from_log
from gateway_project.work.snapshot.limits import limit_rows
from gateway_project.work.snapshot.records import Caller, KeySnapshot, Target
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.counters import Counters
from gateway_project.work.state.figures import Figures
from gateway_project.work.state.shared import LocalState
from gateway_project.work.what_if.drafts import LIMITS, Draft, RowDraft
from gateway_project.work.what_if.traffic import Traffic
from licensing.models import SUBJECTS, Limit, Window

REFUSALS = frozenset(LIMIT_ERROR_NAMES) - {ActiveUseLimitReached.exception}
Place = tuple[Subject, str, str]  # subject, measure and window: there is one limit of each at most


class Admitted(NamedTuple):
    """A request that is in flight on one side: when it ends, and what it then has used."""

    ends: float
    number: int
    settlement: Settlement


class ReplayClock(Clock):
    """Shows the time of the request that is being judged."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at

    def now(self) -> float:
        return self.at


class CallerWithKey(NamedTuple):
    """Whose request it is; without a key it came with a login, or with a key that was deleted."""

    key: KeySnapshot | None
    caller: Caller


class LimitSide:
    """The counts of some limits from a moment on; before it they hold what the log says."""

    def __init__(self, rows: Iterable[LimitRow], start: datetime) -> None:
        limits = [row._replace(set_at=None) for row in rows if row.amount > 0]
        self.is_empty = not limits
        self.clock = ReplayClock(start.timestamp())
        self.book = LimitBook(limits, started_at=0.0)
        counters = Counters(clock=self.clock)
        for check in map(self.book.check, limits):
            _count_before(counters, check, self.clock)
        self._state = LocalState.from_counters(counters)
        self._in_flight: list[Admitted] = []
        self._numbers = count()

    def admit(
        self, traffic: Traffic, identity: CallerWithKey, targets: Sequence[Target], cost: Decimal | None
    ) -> int | None:
        """Take from the limits of a request; None if one of them refuses it, else the number of the target with room.

        The targets are in the order of asking; a cost of None says that there is no price.
        """
        own, candidates = self.book.for_caller(*identity), self._candidates(targets)
        if not own.checks and not candidates:
            return 0
        assert traffic.record is not None, "limits are counted one request after the other"
        at, seconds, *_ = traffic.record
        self._settle_until(at)
        if cost is None and own.refusing_unpriced:
            return None
        token = "" if traffic.is_from_cache else str(next(self._numbers))
        admission = _admit(self._state, token, own, candidates, traffic, cost)
        if admission.is_rejected:
            return None
        if admission.holds:
            amounts = [hold.check.take for hold in admission.holds]  # what it was known to use
            settlement = Settlement(token, admission.holds, amounts)
            heappush(self._in_flight, Admitted(at + seconds, next(self._numbers), settlement))
        return admission.choice

    def has_room(
        self, traffic: Traffic, identity: CallerWithKey, targets: Sequence[Target], cost: Decimal | None
    ) -> bool:
        """Whether it would be admitted; takes nothing."""
        own, candidates = self.book.for_caller(*identity), self._candidates(targets)
        assert traffic.record is not None, "limits are counted one request after the other"
        self._settle_until(traffic.record.at)
        checks = list(chain.from_iterable(limits.checks for limits in (own, *candidates)))
        copy = self._state.excerpt(checks)
        return not _admit(copy, "one", own, candidates, traffic, cost).is_rejected

    def tidy(self) -> None:
        """Forget windows that are over."""
        self._state.tidy()

    def _candidates(self, targets: Sequence[Target]) -> list[Limits]:
        if not self.book.has_provider_limits:
            return []
        return [self.book.for_provider(target.provider) for target in targets]

    def _settle_until(self, at: float) -> None:
        """End the requests that had ended by then; time never goes back."""
        while self._in_flight and self._in_flight[0].ends <= at:
            request = heappop(self._in_flight)
            self.clock.at = max(self.clock.at, request.ends)
            self._state.settle(request.settlement)
        self.clock.at = max(self.clock.at, at)


class LimitSides:
    """The limits as they are, and as the draft has them."""

    def __init__(self, draft: Draft, start: datetime) -> None:
        before, after = touched_rows(draft)
        self.before, self.after = LimitSide(before, start), LimitSide(after, start)

    def tidy(self) -> None:
        """Forget windows that are over."""
        self.before.tidy()
        self.after.tidy()


def is_refused_by_limit(traffic: Traffic) -> bool:
    """Whether a limit refused the request when it was sent; the licence's own is none of those that drafts have."""
    return traffic.record is not None and traffic.record.exception in REFUSALS


def touched_rows(draft: Draft) -> tuple[list[LimitRow], list[LimitRow]]:
    """The limits that the draft touches, as they are and as it has them; a default stands where there is none."""
    replaced = draft.replaced_ids(LIMITS)
    if missing := replaced - set(Limit.objects.filter(pk__in=replaced).values_list("pk", flat=True)):
        raise ValidationError(f"no row with id {min(missing)}.", field=LIMITS)
    rows = {_place(row): row for row in limit_rows(Limit.objects.all()).values()}
    drafted = {_place(row): row for row in map(_limit_row, draft.of(LIMITS))}
    replaced_places = {_place(row) for row in limit_rows(Limit.objects.filter(pk__in=replaced)).values()}
    places = drafted.keys() | replaced_places
    before = [row for place in places if (row := rows.get(place) or _default(place))]
    after = [row for place in places if (row := drafted.get(place) or _default(place))]
    return before, after


def _limit_row(row: RowDraft) -> LimitRow:
    values = row.values
    kind = next(name for name in SUBJECTS if name in values)
    subject = Subject(kind, values[kind].pk)
    window = values.get("window") or (Window.NONE if values["measure"] in WITHOUT_WINDOW else "")
    if not window:
        raise ValidationError("is missing: send minute, day or month.", field=f"{row.place}.window")
    options = {name: values[name] for name in ("is_strict", "unpriced", "unpriced_price") if name in values}
    return LimitRow(subject, str(values[kind]), values["measure"], window, values["amount"], **options)


def _default(place: Place) -> LimitRow | None:
    subject, measure, window = place
    amount = settings.GATEWAY_LIMITS.get(subject.kind, {}).get((measure, window))
    return LimitRow(subject, str(subject.id), measure, window, amount) if amount else None


def _place(row: LimitRow) -> Place:
    return row.subject, row.measure, row.window


def _count_before(counters: Counters, check: LimitCheck, clock: ReplayClock) -> None:
    """Have what was used in the window before the period begins; a minute is too short to matter."""
    begin = window_begin(check.window_seconds, clock.at) if check.window_seconds else clock.at
    subject = check.limit.subject
    if check.window_seconds in (0, 60) or begin >= clock.at:
        return
    usage = usage_from_log(subject.kind, [subject.id], int(begin), clock.at, Clock())[subject.id]
    counters.put(check, Figures(in_units(usage, check.limit), since=begin), clock.at)


def _admit(
    state: LocalState, token: str, own: Limits, candidates: Sequence[Limits], traffic: Traffic, cost: Decimal | None
) -> Admission:
    """Ask for room in the limits of the caller, and in those of one of the targets."""
    checks = _size_checks(own, traffic, cost)
    choices = [_size_checks(limits, traffic, cost) for limits in candidates]
    return state.admit(checks, token=token, candidate_checks=choices, ignore_lost=True, with_statuses=False)


def _size_checks(limits: Limits, traffic: Traffic, cost: Decimal | None) -> Sequence[LimitCheck]:
    """The checks with what the request takes; only reservations differ from request to request."""
    if not limits.reserves:
        return limits.checks
    return [_with_known_use(check, traffic, cost) if check.kind == RESERVE else check for check in limits.checks]


def _with_known_use(check: LimitCheck, traffic: Traffic, cost: Decimal | None) -> LimitCheck:
    """The check with what the request is known to use; of a limit that has less room, a part of it has to fit."""
    amount, part = USES[check.limit.measure](check.limit, traffic, cost)
    take = min(amount, MAX_AMOUNT)
    return check.with_take(take, take if check.limit.is_strict else min(part, take))


def _use_of_tokens(limit: LimitDescription, traffic: Traffic, cost: Decimal | None) -> tuple[int, int]:
    """What the request is known to use, and its input."""
    return _tokens(traffic), traffic.usage.all_input


def _use_of_cost(limit: LimitDescription, traffic: Traffic, cost: Decimal | None) -> tuple[int, int]:
    """What the request is known to use, and the least amount."""
    if cost is not None:
        return round(cost * NANO), 1
    return unpriced_units(_tokens(traffic), limit) if limit.unpriced == COUNT_UNPRICED else 0, 1


def _tokens(traffic: Traffic) -> int:
    return traffic.usage.all_input + (traffic.usage.output or 0)


# Each measure that is reserved: what a request uses of its limits, and the part of it that has to fit.
USES = {TOKENS: _use_of_tokens, COST: _use_of_cost}
