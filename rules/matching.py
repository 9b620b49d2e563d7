"""Finds the rule that allows a request: the first that matches, by order_of(). Pure, and linear in time.

Rules that deny are checked before rules that allow. The rules are indexed by audience, so that a request is matched
against its own only; the matches of an audience for a model are cached.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from heapq import merge
from typing import NamedTuple

from gateway_project.name_patterns import Pattern
from providers.catalogue import Target

# How many models an audience caches; bounded, as callers can send any model name.
REMEMBERED_MODELS = 2048
DEFAULT_POSITION = 100


@dataclass(frozen=True, slots=True)
class RuleSnapshot:
    """A rule. `pattern` is compiled, None for every model; `provider_id` None for any provider.

    A rule that denies leaves its provider out for the requests that it matches; without a provider it refuses them.
    """

    id: int
    name: str
    pattern: Pattern | None
    user_id: int | None
    group_id: int | None
    everyone: bool
    provider_id: int | None
    denies: bool = False
    enabled: bool = True  # a disabled one is never judged, only explained
    position: int = DEFAULT_POSITION


def order_of(rule: RuleSnapshot) -> tuple[int, int]:
    """What the rules of one effect are sorted by: the first are judged first."""
    return rule.position, rule.id


class Mismatch(Enum):
    """Why a rule does not match a request."""

    DISABLED = "disabled"
    DECIDED = "not needed: a rule before it decided"
    USER = "for another user"
    GROUP = "for a group that the user is not a member of"
    NOBODY = "for nobody: its user or group was deleted"
    MODEL = "its pattern does not match the model"
    PROVIDER = "its provider is not among those that could serve the request"


class ConsideredRule(NamedTuple):
    """A rule, and why it does not match a request; None if it does."""

    rule: RuleSnapshot
    mismatch: Mismatch | None

    @property
    def has_matched(self) -> bool:
        return self.mismatch is None


# Of each rule that a judgement compared with the offers, by id: whether it matched.
Trace = dict[int, bool]
Judgement = tuple[RuleSnapshot | None, tuple[Target, ...]]
DENIED: Judgement = (None, ())


class AudienceRules:
    """The rules of one user, of one group, or of everyone."""

    __slots__ = ("_by_model", "_expected", "rules")

    def __init__(self) -> None:
        self.rules: list[RuleSnapshot] = []
        self._by_model: dict[str, list[RuleSnapshot]] = {}
        self._expected: ExpectedNames | None = None

    def add(self, rule: RuleSnapshot) -> None:
        self.rules.append(rule)

    def for_model(self, model: str) -> list[RuleSnapshot]:
        """The rules whose pattern matches the whole model name, in order."""
        rules = self._by_model.get(model)
        if rules is None:
            expected = self._expected
            if expected is not None and model in expected.names:
                return expected.rules_for(model)
            rules = [rule for rule in self.rules if rule.pattern is None or rule.pattern.fullmatch(model)]
            if len(self._by_model) >= REMEMBERED_MODELS:
                self._by_model.clear()
            self._by_model[model] = rules
        return rules

    def expect(self, names: Collection[str], matches: Mapping[str, Collection[str]]) -> None:
        """Know which of these names the patterns match, by their texts, without trying each."""
        self._expected = ExpectedNames(self.rules, names, matches)
        self._by_model.clear()


class ExpectedNames:
    """The rules of an audience by the names that somebody will ask about."""

    __slots__ = ("_by_name", "_for_every_model", "names")

    def __init__(
        self, rules: Iterable[RuleSnapshot], names: Collection[str], matches: Mapping[str, Collection[str]]
    ) -> None:
        self.names = names
        self._for_every_model: list[RuleSnapshot] = []
        self._by_name: dict[str, list[RuleSnapshot]] = {}
        for rule in rules:
            if rule.pattern is None:
                self._for_every_model.append(rule)
                continue
            for name in matches[rule.pattern.pattern]:
                self._by_name.setdefault(name, []).append(rule)

    def rules_for(self, name: str) -> list[RuleSnapshot]:
        """The rules that match the name, in order."""
        rules = self._by_name.get(name, [])
        if not rules or not self._for_every_model:
            return rules or self._for_every_model
        return sorted([*self._for_every_model, *rules], key=order_of)


class RuleIndex:
    """Rules of one effect, by audience."""

    __slots__ = ("_everyone", "_groups", "_users")

    def __init__(self, rules: Iterable[RuleSnapshot]) -> None:
        self._everyone = AudienceRules()
        self._users: dict[int, AudienceRules] = {}
        self._groups: dict[int, AudienceRules] = {}
        for rule in rules:
            self._audience_of(rule).add(rule)

    def audiences(self, user_id: int, group_ids: Collection[int]) -> list[AudienceRules]:
        """The audiences that a caller belongs to."""
        audiences = [self._everyone]
        if user_id in self._users:
            audiences.append(self._users[user_id])
        audiences += [self._groups[group] for group in group_ids if group in self._groups]
        return audiences

    def expect(self, names: Collection[str], matches: Mapping[str, Collection[str]]) -> None:
        """See RuleBook.expect()."""
        for audience in (self._everyone, *self._users.values(), *self._groups.values()):
            audience.expect(names, matches)

    def matching_rules(self, user_id: int, group_ids: Collection[int], model: str) -> Iterator[RuleSnapshot]:
        """The rules for this caller and model, in order."""
        matches = [audience.for_model(model) for audience in self.audiences(user_id, group_ids)]
        return iter(matches[0]) if len(matches) == 1 else merge(*matches, key=order_of)

    def _audience_of(self, rule: RuleSnapshot) -> AudienceRules:
        if rule.everyone:
            return self._everyone
        if rule.user_id is not None:
            return self._users.setdefault(rule.user_id, AudienceRules())
        if rule.group_id is not None:
            return self._groups.setdefault(rule.group_id, AudienceRules())
        return AudienceRules()  # of nobody


class RuleBook:
    """All rules at one moment; immutable. Those that are not enabled are only explained."""

    def __init__(self, rules: Iterable[RuleSnapshot] = ()) -> None:
        # In the order of judging: those that deny first.
        self.rules = sorted(rules, key=lambda rule: (not rule.denies, *order_of(rule)))
        denies = [rule for rule in self.rules if rule.denies and rule.enabled]
        self._denies = RuleIndex(denies) if denies else None
        self._allows = RuleIndex(rule for rule in self.rules if not rule.denies and rule.enabled)

    def expect(self, names: Collection[str], matches: Mapping[str, Collection[str]]) -> None:
        """Prepare for many questions about these names; `matches` are those of them that each pattern matches."""
        for index in filter(None, (self._denies, self._allows)):
            index.expect(names, matches)

    def judge(self, model: str, offers: tuple[Target, ...], *, user_id: int, group_ids: Collection[int]) -> Judgement:
        """The first rule that lets this caller ask for the model, and the offers that it allows."""
        return self._judge_name(name_of(model, offers), offers, user_id=user_id, group_ids=group_ids)

    def judge_alias(
        self, name: str, offers: tuple[Target, ...], *, user_id: int, group_ids: Collection[int]
    ) -> Judgement:
        """The first rule that lets this caller ask for the name of an alias, and the offers that it allows.

        Rules have to allow each of them as if it were asked for by its own name and provider, too.
        """
        own = tuple(one for one in offers if self.allows(one, user_id=user_id, group_ids=group_ids))
        if offers and not own:
            return DENIED
        return self._judge_name(name, own, user_id=user_id, group_ids=group_ids)

    def allows(self, target: Target, *, user_id: int, group_ids: Collection[int]) -> bool:
        """Whether this caller may ask this provider for this model."""
        return self._rule_for(target, user_id=user_id, group_ids=group_ids) is not None

    def rules_for(
        self, targets: Iterable[Target], *, user_id: int, group_ids: Collection[int]
    ) -> Iterator[RuleSnapshot]:
        """For each target that rules allow this caller by itself, the first rule that does."""
        rules = (self._rule_for(target, user_id=user_id, group_ids=group_ids) for target in targets)
        return (rule for rule in rules if rule is not None)

    def consider_rules(
        self, name: str, offers: tuple[Target, ...], *, user_id: int, group_ids: Collection[int]
    ) -> list[ConsideredRule]:
        """Each rule in the order of judging, with the reason why it does not match a request for this name.

        `name` is that of an alias, with those of its targets that the rules allow by themselves, or name_of() a model
        and its offers. Of rules that deny, each that leaves a provider out has matched.
        """
        trace: Trace = {}
        self._judge_name(name, offers, user_id=user_id, group_ids=group_ids, trace=trace)
        indexes = filter(None, (self._denies, self._allows))
        audiences = [one for index in indexes for one in index.audiences(user_id, group_ids)]
        own = {rule.id for audience in audiences for rule in audience.rules}
        matching = {rule.id for audience in audiences for rule in audience.for_model(name)}
        return [ConsideredRule(rule, _mismatch(rule, trace, own, matching)) for rule in self.rules]

    def _rule_for(self, target: Target, *, user_id: int, group_ids: Collection[int]) -> RuleSnapshot | None:
        rule, allowed = self._judge_name(target.model, (target,), user_id=user_id, group_ids=group_ids)
        return rule if allowed else None

    def _judge_name(
        self,
        name: str,
        offers: tuple[Target, ...],
        *,
        user_id: int,
        group_ids: Collection[int],
        trace: Trace | None = None,
    ) -> Judgement:
        """The first rule that lets this caller ask for the name, and the offers whose provider it allows."""
        if self._denies is not None:
            remaining = _without_denied(offers, self._denies.matching_rules(user_id, group_ids, name), trace)
            if remaining is None:
                return DENIED
            offers = remaining
        provider_ids = [target.provider.id for target in offers]
        for rule in self._allows.matching_rules(user_id, group_ids, name):
            matches = rule.provider_id is None or rule.provider_id in provider_ids
            if trace is not None:
                trace[rule.id] = matches
            if matches:
                return rule, offers if rule.provider_id is None else _offers_of(rule.provider_id, offers)
        return DENIED


def name_of(model: str, offers: tuple[Target, ...]) -> str:
    """The name that rules judge when a model is asked for: without the provider before it."""
    return offers[0].model if offers else model


def _without_denied(
    offers: tuple[Target, ...], denies: Iterable[RuleSnapshot], trace: Trace | None
) -> tuple[Target, ...] | None:
    """The offers that no rule denies; None if the request is refused."""
    for rule in denies:
        remaining = tuple(target for target in offers if target.provider.id != rule.provider_id)
        matches = rule.provider_id is None or len(remaining) < len(offers)
        if trace is not None:
            trace[rule.id] = matches
        if rule.provider_id is None or (matches and not remaining):
            return None
        offers = remaining
    return offers


def _offers_of(provider_id: int, offers: tuple[Target, ...]) -> tuple[Target, ...]:
    return tuple(target for target in offers if target.provider.id == provider_id)


def _mismatch(rule: RuleSnapshot, trace: Trace, own: set[int], matching: set[int]) -> Mismatch | None:
    """Why the rule does not match; `own` are the rules for the caller, `matching` those of them for the model."""
    if not rule.enabled:
        return Mismatch.DISABLED
    if rule.id not in own:
        if rule.user_id is None and rule.group_id is None:
            return Mismatch.NOBODY
        return Mismatch.USER if rule.user_id is not None else Mismatch.GROUP
    if rule.id not in matching:
        return Mismatch.MODEL
    if rule.id not in trace:
        return Mismatch.DECIDED
    return None if trace[rule.id] else Mismatch.PROVIDER
