"""Judges recorded requests by the present configuration and by a draft, with the pipeline's own judgement."""

from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from gateway_project.work.snapshot.records import Caller, KeySnapshot, Snapshot, Target
from gateway_project.work.stages.rules import allowed_targets
from gateway_project.work.what_if.averages import Averages
from gateway_project.work.what_if.costs import Costs
from gateway_project.work.what_if.guardrails import GuardrailTrial, Verdict
from gateway_project.work.what_if.limits import Asker, LimitSides, is_refused_by_limit
from gateway_project.work.what_if.outcome import Cause, Change, Judgement, Outcome
from gateway_project.work.what_if.traffic import Traffic, parts_of, requests_of, traffic_of

MAX_JUDGEMENTS = 100_000  # that are remembered
REPORT_EVERY = 5000  # requests
Targets: TypeAlias = tuple[Target, ...]


class Cancelled(Exception):
    """Somebody does not want the result any more."""


class Replay:
    """One comparison; `report` gets the done share of the period and may raise Cancelled.

    With limits or guardrails of the draft, each request is judged by itself, in the order in which they began.
    """

    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        report: Callable[[float], None],
        *,
        limits: LimitSides | None = None,
        guardrails: GuardrailTrial | None = None,
    ) -> None:
        self._before, self._after, self._report = before, after, report
        self._limits, self._guardrails, self._costs = limits, guardrails, Costs(before, after)
        self._averages = Averages()
        self._keys: dict[int, KeySnapshot] = {key.id: key for key in before.keys.values()}
        self._judgements: dict[tuple[object, ...], tuple[Targets, Targets]] = {}
        self._outcome = Outcome(has_limits=limits is not None)
        if guardrails is not None:
            self._outcome.guardrails = guardrails.counts

    def run(self, start: datetime, end: datetime) -> Outcome:
        """Compare the requests of a period. Raises Cancelled."""
        parts = parts_of(start, end)
        for number, (begin, finish) in enumerate(parts):
            self._report(number / len(parts))
            for place, traffic in enumerate(self._traffic(begin, finish)):
                if place and place % REPORT_EVERY == 0:
                    self._report(number / len(parts))
                self._compare(traffic)
            if self._limits is not None:
                self._limits.tidy()
        self._report(1.0)
        return self._outcome

    def _traffic(self, begin: datetime, finish: datetime) -> Iterator[Traffic]:
        if self._limits is None and self._guardrails is None:
            tiers = {*self._before.prices.tiers, *self._after.prices.tiers}
            return traffic_of(begin, finish, tiers)
        return requests_of(begin, finish, with_payload=self._guardrails is not None)

    def _compare(self, traffic: Traffic) -> None:
        caller = None if traffic.user_id is None else self._before.callers.get(traffic.user_id)
        if caller is None or not caller.usable:
            self._outcome.skip(traffic)
            return
        key = self._keys.get(traffic.key_id or 0)
        before, after = self.judge(traffic, caller, key)
        judgement = self._limited(traffic, Asker(key, caller), before, after)
        if self._guardrails is not None and judgement.change is not Change.DENIED and after:
            judgement = self._guarded(traffic, caller, judgement, after)
        self._outcome.count(traffic, caller, judgement)

    def judge(self, traffic: Traffic, caller: Caller, key: KeySnapshot | None) -> tuple[Targets, Targets]:
        """The targets that may serve the request: now, and with the draft."""
        tags = tuple(sorted(traffic.tags.items())) if traffic.tags else ()
        place = (traffic.user_id, traffic.key_id, traffic.model, tags)
        judgement = self._judgements.get(place)
        if judgement is None:
            if len(self._judgements) >= MAX_JUDGEMENTS:
                self._judgements.clear()
            judgement = self._targets(traffic, key, self._before), self._targets(traffic, key, self._after)
            self._judgements[place] = judgement
        return judgement

    def _targets(self, traffic: Traffic, key: KeySnapshot | None, snapshot: Snapshot) -> Targets:
        caller = snapshot.callers[traffic.user_id or 0]
        return allowed_targets(traffic.model, caller, key, snapshot, traffic.tags)

    def _limited(self, traffic: Traffic, asker: Asker, before: Targets, after: Targets) -> Judgement:
        """The judgement once limits of the draft have been asked."""
        if self._limits is None:
            return self._costs.judged(traffic, change_of(traffic, before, after), after)
        used = self._averages.usual(traffic)
        if before and is_refused_by_limit(traffic):
            ordered, cost = self._asked(used, before, is_draft=False)
            if self._limits.before.has_room(used, asker, ordered, cost):
                return Judgement()  # it was another limit that refused it, which does so still
        now = self._left(used, asker, before, is_draft=False)
        drafted = self._left(used, asker, after, is_draft=True)
        change = change_of(traffic, now, drafted)
        judgement = self._costs.judged(traffic, change, drafted)
        if change is Change.ALLOWED and used is not traffic:
            self._outcome.unknown_usage += 1
        is_limited = change is Change.DENIED and bool(after)
        return judgement._replace(cause=Cause.LIMIT) if is_limited else judgement

    def _left(self, traffic: Traffic, asker: Asker, targets: Targets, *, is_draft: bool) -> Targets:
        """Of these targets those that limits leave: all, the one that is asked if the first is full, or none."""
        assert self._limits is not None
        side = self._limits.after if is_draft else self._limits.before
        if not targets or side.is_empty:
            return targets
        ordered, cost = self._asked(traffic, targets, is_draft=is_draft)
        number = side.admit(traffic, asker, ordered, cost)
        if number is None:
            return ()
        return (ordered[number],) if number else targets

    def _asked(self, traffic: Traffic, targets: Targets, *, is_draft: bool) -> tuple[Targets, Decimal | None]:
        """The targets in the order of asking, and what limits count for the request at the first of them."""
        ordered = _in_order(traffic, targets)
        return ordered, self._costs.for_limits(traffic, ordered, is_draft=is_draft)

    def _guarded(self, traffic: Traffic, caller: Caller, judgement: Judgement, targets: Targets) -> Judgement:
        """The judgement once guardrails of the draft have been asked; `targets` may serve the request with it."""
        assert self._guardrails is not None
        verdict = self._guardrails.judge(traffic, caller)
        if verdict is Verdict.UNKNOWN:
            self._outcome.unknown_texts += 1
        if verdict is Verdict.RELEASED:
            return self._costs.judged(traffic, Change.ALLOWED, targets)
        if verdict is not Verdict.DENIED:
            return judgement
        return self._costs.judged(traffic, Change.DENIED, ())._replace(cause=Cause.GUARDRAIL)


def change_of(traffic: Traffic, before: Targets, after: Targets) -> Change:
    """What changes for requests that these targets may serve now, and those with the draft."""
    if before == after:
        return Change.NONE
    if not before:
        return Change.ALLOWED
    if not after:
        return Change.DENIED
    keys = {target.key for target in after}
    was_possible = traffic.served in {target.key for target in before}
    return Change.REROUTED if was_possible and traffic.served not in keys else Change.NONE


def _in_order(traffic: Traffic, targets: Targets) -> Targets:
    """The target that served first, then the others."""
    if len(targets) == 1:
        return targets
    return tuple(sorted(targets, key=lambda one: (one.key != traffic.served, one.provider.priority)))
