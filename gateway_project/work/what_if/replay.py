"""Judges recorded requests by the present configuration and by a draft, with the pipeline's own judgement."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from gateway_project.work.snapshot.records import Caller, KeySnapshot, Snapshot
from gateway_project.work.stages.rules import Question
from gateway_project.work.what_if.averages import Averages
from gateway_project.work.what_if.costs import Costs
from gateway_project.work.what_if.guardrails.trial import GuardrailTrial, Verdict, is_blocked
from gateway_project.work.what_if.limits import CallerWithKey, LimitSides, is_refused_by_limit
from gateway_project.work.what_if.outcome import Cause, Change, Gap, Judgement, Outcome
from gateway_project.work.what_if.possible import (
    NONE_POSSIBLE,
    PossibleTargets,
    has_other_draws,
    is_rerouted,
    possible_for,
    possible_targets,
)
from gateway_project.work.what_if.traffic import Traffic, parts_of, requests_of, traffic_of

MAX_CASES = 100_000  # that are remembered
REPORT_EVERY = 5000  # requests


class Case(NamedTuple):
    """Who asks for a model, and the targets that may serve that: now, and with the draft."""

    identity: CallerWithKey
    before: PossibleTargets
    after: PossibleTargets


class Cancelled(Exception):
    """Somebody does not want the result any more."""


@contextmanager
def collecting_between_parts() -> Iterator[Callable[[], int]]:
    """Collect only new objects, and only on demand: a replay makes many objects and hardly any cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield gc.collect
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


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
        self._cases: dict[tuple[object, ...], Case | None] = {}
        self._outcome = Outcome(has_limits=limits is not None, redraws=has_other_draws(before, after))
        if guardrails is not None:
            self._outcome.guardrails = guardrails.counts

    def run(self, start: datetime, end: datetime) -> Outcome:
        """Compare the requests of a period. Raises Cancelled."""
        parts = parts_of(start, end)
        with collecting_between_parts() as collect:
            for number, (begin, finish) in enumerate(parts):
                self._report(number / len(parts))
                self._run_part(begin, finish, number / len(parts))
                collect()
        self._report(1.0)
        return self._outcome

    def _run_part(self, begin: datetime, finish: datetime, share: float) -> None:
        for place, traffic in enumerate(self._traffic(begin, finish)):
            if place and place % REPORT_EVERY == 0:
                self._report(share)
            self._compare(traffic)
        if self._limits is not None:
            self._limits.tidy()

    def _traffic(self, begin: datetime, finish: datetime) -> Iterator[Traffic]:
        if self._limits is None and self._guardrails is None:
            tiers = {*self._before.prices.tiers, *self._after.prices.tiers}
            return traffic_of(begin, finish, tiers)
        return requests_of(begin, finish, with_payload=self._guardrails is not None)

    def _compare(self, traffic: Traffic) -> None:
        case = self._case(traffic)
        if case is None:
            self._outcome.note(Gap.SKIPPED, traffic)
            return
        if self._stays_refused(traffic):
            self._outcome.note(Gap.REFUSED, traffic)
            judgement = self._costs.judgement_of(traffic, Change.NONE, ())
        else:
            judgement = self._judgement_of(traffic, case)
        self._outcome.count(traffic, case.identity.caller, judgement)

    def _stays_refused(self, traffic: Traffic) -> bool:
        """Whether something refused the request that neither rules nor the draft decide."""
        return not (
            traffic.was_judged
            or (self._limits is not None and is_refused_by_limit(traffic))
            or (self._guardrails is not None and is_blocked(traffic))
        )

    def _judgement_of(self, traffic: Traffic, case: Case) -> Judgement:
        identity, before, after = case
        judgement = self._judge_limits(traffic, identity, before, after)
        is_possible = judgement.change is not Change.DENIED and bool(after.targets)
        if is_blocked(traffic):  # guardrails alone can let it pass
            judgement = self._costs.judgement_of(traffic, Change.NONE, ())
        if self._guardrails is not None and is_possible:
            judgement = self._judge_guardrails(traffic, identity.caller, judgement, after)
        return judgement

    def _case(self, traffic: Traffic) -> Case | None:
        """Who asks, and the targets that may serve; None if the user is not active now."""
        tags = tuple(sorted(traffic.tags.items())) if traffic.tags else ()
        place = (traffic.user_id, traffic.key_id, traffic.model, tags)
        if place not in self._cases:
            if len(self._cases) >= MAX_CASES:
                self._cases.clear()
            self._cases[place] = self._new_case(traffic)
        return self._cases[place]

    def _new_case(self, traffic: Traffic) -> Case | None:
        caller = None if traffic.user_id is None else self._before.callers.get(traffic.user_id)
        if caller is None or not caller.usable:
            return None
        key = self._keys.get(traffic.key_id or 0)
        before, after = self.judge(traffic, key)
        if before.targets != after.targets and (before.has_choice or after.has_choice):
            self._outcome.misses_named_providers = True
        return Case(CallerWithKey(key, caller), before, after)

    def judge(self, traffic: Traffic, key: KeySnapshot | None) -> tuple[PossibleTargets, PossibleTargets]:
        """The targets that may serve the request: now, and with the draft."""
        return self._find_targets(traffic, key, self._before), self._find_targets(traffic, key, self._after)

    def _find_targets(self, traffic: Traffic, key: KeySnapshot | None, snapshot: Snapshot) -> PossibleTargets:
        caller = snapshot.callers[traffic.user_id or 0]
        return possible_for(Question(traffic.model, caller, key, traffic.tags), snapshot)

    def _judge_limits(
        self, traffic: Traffic, identity: CallerWithKey, before: PossibleTargets, after: PossibleTargets
    ) -> Judgement:
        """The judgement once limits of the draft have been asked."""
        if self._limits is None:
            return self._costs.judgement_of(traffic, change_of(traffic, before, after), after.first)
        if not is_rerouted(traffic.served, before, after):
            after = after.led_by(traffic.served)
        return self._judge_by_limits(traffic, identity, before.led_by(traffic.served), after)

    def _judge_by_limits(
        self, traffic: Traffic, identity: CallerWithKey, before: PossibleTargets, after: PossibleTargets
    ) -> Judgement:
        """The judgement by limits, which are asked for room at the targets in their order."""
        assert self._limits is not None
        average = self._averages.with_usual_use(traffic)
        if before.targets and is_refused_by_limit(traffic):
            cost = self._costs.for_limits(average, before.targets, is_draft=False)
            if self._limits.before.has_room(average, identity, before.targets, cost):
                self._outcome.note(Gap.REFUSED, traffic)
                return Judgement()  # it was another limit that refused it, which does so still
        now = self._within_limits(average, identity, before, is_draft=False)
        drafted = self._within_limits(average, identity, after, is_draft=True)
        change = change_of(traffic, now, drafted)
        judgement = self._costs.judgement_of(traffic, change, drafted.first)
        if change is Change.ALLOWED and average is not traffic:
            self._outcome.unknown_usage += 1
        is_limited = change is Change.DENIED and bool(after.targets)
        return Judgement(change, judgement.cost, Cause.LIMIT) if is_limited else judgement

    def _within_limits(
        self, traffic: Traffic, identity: CallerWithKey, choice: PossibleTargets, *, is_draft: bool
    ) -> PossibleTargets:
        """Of these targets those that limits leave: all, the one that is asked if the first is full, or none."""
        assert self._limits is not None
        side, targets = self._limits.after if is_draft else self._limits.before, choice.targets
        if not targets or side.is_empty:
            return choice
        number = side.admit(traffic, identity, targets, self._costs.for_limits(traffic, targets, is_draft=is_draft))
        if number is None:
            return NONE_POSSIBLE
        return possible_targets(targets[number : number + 1], targets[number : number + 1]) if number else choice

    def _judge_guardrails(
        self, traffic: Traffic, caller: Caller, judgement: Judgement, after: PossibleTargets
    ) -> Judgement:
        """The judgement once guardrails of the draft have been asked; `after` may serve the request with it."""
        assert self._guardrails is not None
        verdict = self._guardrails.judge(traffic, caller, self._after.rules, after.targets)
        if verdict is Verdict.UNKNOWN:
            self._outcome.note(Gap.TEXT, traffic)
        if verdict is Verdict.RELEASED:
            return self._costs.judgement_of(traffic, Change.ALLOWED, after.first)
        if verdict is not Verdict.DENIED:
            return judgement
        return self._costs.judgement_of(traffic, Change.DENIED, ())._replace(cause=Cause.GUARDRAIL)


def change_of(traffic: Traffic, before: PossibleTargets, after: PossibleTargets) -> Change:
    """What changes for requests that these targets may serve now, and those with the draft."""
    if not before.targets:
        return Change.ALLOWED if after.targets else Change.NONE
    if not after.targets:
        return Change.DENIED
    return Change.REROUTED if is_rerouted(traffic.served, before, after) else Change.NONE
