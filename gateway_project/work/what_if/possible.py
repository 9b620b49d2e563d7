"""The targets that may serve recorded requests, in the order in which the pipeline would ask them."""

from typing import NamedTuple, TypeAlias

from gateway_project.work.routing.ordering import in_tiers
from gateway_project.work.routing.strategies import Strategy, first_choices
from gateway_project.work.snapshot.records import Snapshot, Target
from gateway_project.work.stages.rules import Question, QuestionAnswer, judge_question
from gateway_project.work.what_if.traffic import TargetKey

Targets: TypeAlias = tuple[Target, ...]
Draw: TypeAlias = tuple[str, str, frozenset[object]]  # of an alias: its name, its strategy, and the targets of a tier


class PossibleTargets(NamedTuple):
    """Targets, best tier first, and those of them that may be asked first; with their keys."""

    targets: Targets
    first: Targets
    keys: frozenset[TargetKey]
    first_keys: frozenset[TargetKey]
    has_choice: bool = False  # whether a request can name one of several providers

    def led_by(self, key: TargetKey) -> "PossibleTargets":
        """With this one before the others, if it is one of them."""
        if len(self.targets) == 1 or key not in self.keys or self.targets[0].key == key:
            return self
        return self._replace(targets=tuple(sorted(self.targets, key=lambda target: target.key != key)))


def possible_targets(targets: Targets, first: Targets) -> PossibleTargets:
    """The targets with their keys."""
    return PossibleTargets(targets, first, frozenset(one.key for one in targets), frozenset(one.key for one in first))


NONE_POSSIBLE = possible_targets((), ())


def possible_for(question: Question, snapshot: Snapshot) -> PossibleTargets:
    """The targets that may and can serve what is asked for, as apply_rules() and choose_candidates() find them."""
    answer = judge_question(question, snapshot)
    tiers = in_tiers(answer.targets, answer.tiers if answer.alias is not None else None)
    has_choice = len(answer.permitted or ()) > 1
    if not tiers:
        return NONE_POSSIBLE._replace(has_choice=has_choice)
    first = tuple(first_choices(_strategy(answer), tiers[0]))
    others = (one.target for tier in tiers for one in tier if one.target not in first)
    return possible_targets((*first, *others), first)._replace(has_choice=has_choice)


def is_rerouted(served: TargetKey, before: PossibleTargets, after: PossibleTargets) -> bool:
    """Whether another target would have served: what was asked first would not be, or a fallback may not any more."""
    if served in before.first_keys:
        return served not in after.first_keys
    return served in before.keys and served not in after.keys


def has_other_draws(before: Snapshot, after: Snapshot) -> bool:
    """Whether an alias chooses among the targets of a tier otherwise than before."""
    return not _tier_draws(after) <= _tier_draws(before)


def _tier_draws(snapshot: Snapshot) -> set[Draw]:
    return {
        (alias.name, alias.strategy, frozenset((one.target.key, one.weight, one.conditions) for one in tier))
        for alias in snapshot.aliases
        for tier in alias.tiers
        if len(tier) > 1
    }


def _strategy(answer: QuestionAnswer) -> Strategy:
    return Strategy(answer.alias.strategy) if answer.alias is not None else Strategy.WEIGHTED
