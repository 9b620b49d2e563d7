"""Finds the rule that allows a request: the first that matches, in order of id. Pure, and linear in time.

The rules are indexed by audience, so that a request is matched against its own only; the matches of an
audience for a model are cached.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Protocol

from providers.catalogue import Target

# How many models an audience caches; bounded, as callers can send any model name.
REMEMBERED_MODELS = 2048


class Pattern(Protocol):
    """A compiled pattern of model names."""

    @property
    def pattern(self) -> str: ...

    def fullmatch(self, text: str) -> object | None: ...


@dataclass(frozen=True, slots=True)
class RuleSnapshot:
    """An enabled rule. `pattern` is compiled, None for every model; `provider_id` None for any provider."""

    id: int
    name: str
    pattern: Pattern | None
    user_id: int | None
    group_id: int | None
    everyone: bool
    provider_id: int | None


class AudienceRules:
    """The rules of one user, of one group, or of everyone."""

    __slots__ = ("_by_model", "_rules")

    def __init__(self) -> None:
        self._rules: list[RuleSnapshot] = []
        self._by_model: dict[str, list[RuleSnapshot]] = {}

    def add(self, rule: RuleSnapshot) -> None:
        self._rules.append(rule)

    def for_model(self, model: str) -> list[RuleSnapshot]:
        """The rules whose pattern matches the whole model name, in order of id."""
        rules = self._by_model.get(model)
        if rules is None:
            rules = [rule for rule in self._rules if rule.pattern is None or rule.pattern.fullmatch(model)]
            if len(self._by_model) >= REMEMBERED_MODELS:
                self._by_model.clear()
            self._by_model[model] = rules
        return rules


class RuleBook:
    """All enabled rules at one moment; immutable."""

    def __init__(self, rules: Iterable[RuleSnapshot] = ()) -> None:
        self._everyone = AudienceRules()
        self._users: dict[int, AudienceRules] = {}
        self._groups: dict[int, AudienceRules] = {}
        for rule in sorted(rules, key=lambda rule: rule.id):
            self._rules_for(rule).add(rule)

    def judge(
        self, model: str, offers: tuple[Target, ...], *, user_id: int, group_ids: Collection[int]
    ) -> tuple[RuleSnapshot | None, tuple[Target, ...]]:
        """The first rule that lets this caller ask for the model, and the offers that it allows."""
        rule = self.first(
            user_id=user_id,
            group_ids=group_ids,
            model=offers[0].model if offers else model,
            provider_ids=[target.provider.id for target in offers],
        )
        if rule is not None and rule.provider_id is not None:
            offers = tuple(target for target in offers if target.provider.id == rule.provider_id)
        return rule, offers

    def first(
        self, *, user_id: int, group_ids: Collection[int], model: str, provider_ids: Collection[int]
    ) -> RuleSnapshot | None:
        """The first rule for this caller and model; one with a provider matches only if that is among provider_ids."""
        for rule in self._matching(user_id, group_ids, model):
            if rule.provider_id is None or rule.provider_id in provider_ids:
                return rule
        return None

    def _matching(self, user_id: int, group_ids: Collection[int], model: str) -> Iterator[RuleSnapshot]:
        matches = [self._everyone.for_model(model)]
        if user_id in self._users:
            matches.append(self._users[user_id].for_model(model))
        matches += [self._groups[group].for_model(model) for group in group_ids if group in self._groups]
        return iter(matches[0]) if len(matches) == 1 else merge(*matches, key=lambda rule: rule.id)

    def _rules_for(self, rule: RuleSnapshot) -> AudienceRules:
        if rule.everyone:
            return self._everyone
        if rule.user_id is not None:
            return self._users.setdefault(rule.user_id, AudienceRules())
        if rule.group_id is not None:
            return self._groups.setdefault(rule.group_id, AudienceRules())
        return AudienceRules()  # of nobody
