"""Judges recorded requests by the present configuration and by a draft, with the pipeline's own judgement."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from gateway_project.work.snapshot.records import KeySnapshot, Snapshot, Target
from gateway_project.work.stages.rules import allowed_targets
from gateway_project.work.what_if.outcome import Change, Outcome
from gateway_project.work.what_if.traffic import Traffic, parts_of, traffic_of
from providers.formats import Usage
from providers.pricing.prices import cost_of

MAX_JUDGEMENTS = 100_000  # that are remembered
Targets: TypeAlias = tuple[Target, ...]


class Cancelled(Exception):
    """Somebody does not want the result any more."""


class Replay:
    """One comparison; `report` gets the done share of the period and may raise Cancelled."""

    def __init__(self, before: Snapshot, after: Snapshot, report: Callable[[float], None]) -> None:
        self._before, self._after, self._report = before, after, report
        keys = {key.id: key for key in before.keys.values()}
        self._keys: dict[int, KeySnapshot] = keys
        self._judgements: dict[tuple[object, ...], tuple[Targets, Targets]] = {}

    def run(self, start: datetime, end: datetime) -> Outcome:
        """Compare the requests of a period. Raises Cancelled."""
        outcome = Outcome()
        parts = parts_of(start, end)
        for number, (begin, finish) in enumerate(parts):
            self._report(number / len(parts))
            for traffic in traffic_of(begin, finish):
                self._compare(traffic, outcome)
        self._report(1.0)
        return outcome

    def _compare(self, traffic: Traffic, outcome: Outcome) -> None:
        caller = None if traffic.user_id is None else self._before.callers.get(traffic.user_id)
        if caller is None or not caller.usable:
            outcome.skip(traffic)
            return
        before, after = self._judge(traffic)
        change = _change(traffic, before, after)
        outcome.count(traffic, caller.name, change, self._cost(traffic, change, after))

    def _judge(self, traffic: Traffic) -> tuple[Targets, Targets]:
        """The targets that may serve the request: now, and with the draft."""
        place = (traffic.user_id, traffic.key_id, traffic.model, tuple(sorted(traffic.tags.items())))
        judgement = self._judgements.get(place)
        if judgement is None:
            if len(self._judgements) >= MAX_JUDGEMENTS:
                self._judgements.clear()
            judgement = self._targets(traffic, self._before), self._targets(traffic, self._after)
            self._judgements[place] = judgement
        return judgement

    def _targets(self, traffic: Traffic, snapshot: Snapshot) -> Targets:
        caller = snapshot.callers[traffic.user_id or 0]
        key = self._keys.get(traffic.key_id or 0)
        return allowed_targets(traffic.model, caller, key, snapshot, traffic.tags)

    def _cost(self, traffic: Traffic, change: Change, after: Sequence[Target]) -> Decimal | None:
        """What the requests would cost at the prices of now; None if that cannot be known."""
        if change is Change.DENIED:
            return Decimal(0)
        if change is Change.ALLOWED:
            return None
        if change is Change.NONE:
            return traffic.cost
        price = self._after.price(self._first(traffic.model, after), time.time())
        if price is None or price.currency != (traffic.currency or price.currency):
            return None
        usage = Usage(input=traffic.input_tokens, output=traffic.output_tokens)
        return cost_of(usage, price) + price.request * (traffic.requests - 1)

    def _first(self, model: str, targets: Sequence[Target]) -> Target:
        """A target that may be asked first: of an alias one of its first tier, else one of the lowest priority."""
        if self._after.aliases.resolve(model) is not None:
            return targets[0]
        return min(targets, key=lambda target: target.provider.priority)


def _change(traffic: Traffic, before: Targets, after: Targets) -> Change:
    if not before:
        return Change.ALLOWED if after else Change.NONE
    if not after:
        return Change.DENIED
    keys = {target.key for target in after}
    served = (traffic.provider_id or 0, traffic.served_model)
    was_possible = served in {target.key for target in before}
    return Change.REROUTED if was_possible and served not in keys and not traffic.is_from_cache else Change.NONE
