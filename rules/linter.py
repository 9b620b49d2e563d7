"""Checks of rules for administrators: what each allows or denies, and whether it has any effect. Pure.

It answers what RuleBook.judge() would, for the requests that somebody in a rule's audience can send: each model of each
provider, and any model name with a key that is linked to a provider. It does so for all rules in one pass.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import merge
from typing import NamedTuple

from providers.catalogue import Catalogue, Target, servable
from rules.coverage import TargetSets
from rules.matching import RuleSnapshot

ANY_MODEL = "\0"  # no model has this name
MAX_NAMED = 3
NO_MODEL = "No model of an enabled provider matches"

Audience = tuple[str, int]  # ("everyone", 0), ("user", id) or ("group", id)
EVERYONE: Audience = ("everyone", 0)


class Problem(StrEnum):
    """What is wrong with a rule, a group, a key, a model or an alias."""

    DISABLED = "disabled"
    NOBODY = "nobody"
    UNREACHABLE = "unreachable"
    DENIED = "denied"
    SHADOWED = "shadowed"
    USER_WITHOUT_KEYS = "userWithoutKeys"
    GROUP_WITHOUT_RULES = "groupWithoutRules"
    KEY_WITHOUT_RULES = "keyWithoutRules"
    MODEL_FOR_NOBODY = "modelForNobody"
    ALIAS_WITHOUT_TARGETS = "aliasWithoutTargets"


class RuleProblem(NamedTuple):
    """A problem of a rule, in a sentence."""

    problem: Problem
    message: str


@dataclass(slots=True)
class OfferedProvider:
    """An enabled provider with the names of its models; `format` is None if this version does not speak it."""

    id: int
    name: str
    models: Collection[str]
    format: object


class Offers(Catalogue[OfferedProvider]):
    """The enabled providers, and each model of each in the order in which it is shown."""

    def __init__(self, providers: Iterable[OfferedProvider] = ()) -> None:
        super().__init__(providers)
        pairs = (target for targets in self.targets_by_model.values() for target in servable(targets))
        self.models = sorted(pairs, key=lambda target: (target.model, target.provider.id))
        self.sets = TargetSets(self.models)

    def link_to(self, provider_id: int) -> Target[OfferedProvider] | None:
        """The provider of a linked key, with any model name; None if it cannot serve."""
        return next(iter(servable(self.linked_targets(ANY_MODEL, provider_id))), None)


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """A rule, stored or not, that is judged as if it were enabled."""

    rule: RuleSnapshot
    enabled: bool = True
    linked_provider_ids: Collection[int] = ()  # of its audience's usable keys

    @property
    def has_audience(self) -> bool:
        return audience_of(self.rule) is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule covers after what others deny its whole audience, and the earlier rules that cover all of it."""

    models: int  # a set of Offers.sets
    links: frozenset[int]  # of providers
    matches: bool  # whether it covers anything if no other rule denies it
    hiding: Sequence[RuleSnapshot] = ()


@dataclass(slots=True)
class Covered:
    """What the rules of one effect and audience cover, as far as they have been added in order of id."""

    models: int = 0
    rules: list[tuple[RuleSnapshot, int]] = field(default_factory=list)  # those that cover what none before them does
    # By pattern: of two patterns nobody knows whether one matches all that the other does, unless they are the same.
    links: dict[str, list[RuleSnapshot]] = field(default_factory=lambda: defaultdict(list))

    def add(self, rule: RuleSnapshot, models: int) -> None:
        """Add the next rule, with what it covers."""
        if models & ~self.models:
            self.rules.append((rule, models))
            self.models |= models
        links = self.links[_text(rule)]
        if len({one.provider_id for one in links} | {rule.provider_id}) > len(links):
            links.append(rule)

    def linked(self, text: str) -> Iterator[RuleSnapshot]:
        """The rules that surely match all models that a rule with this pattern matches."""
        yield from self.links.get("", ())
        if text:
            yield from self.links.get(text, ())


class Survey:
    """Judges drafts among other rules, all of which are enabled, in one pass over both in order of id."""

    def __init__(self, others: Iterable[RuleSnapshot], offers: Offers) -> None:
        self._offers = offers
        self._others = sorted(others, key=lambda rule: rule.id)
        self._denies: dict[Audience, Covered] = defaultdict(Covered)
        for rule in self._others:
            if rule.denies:
                self._add(rule, self._denies)

    def verdicts(self, drafts: Iterable[RuleDraft]) -> list[Verdict]:
        """The verdict of each draft; the draft itself is perhaps among the others."""
        drafts = list(drafts)
        before = {True: defaultdict[Audience, Covered](Covered), False: defaultdict[Audience, Covered](Covered)}
        rules, verdicts = iter([*self._others, None]), dict[int, Verdict]()
        rule = next(rules)
        for number in sorted(range(len(drafts)), key=lambda number: drafts[number].rule.id):
            draft = drafts[number]
            while rule is not None and rule.id < draft.rule.id:
                self._add(rule, before[rule.denies])
                rule = next(rules)
            verdicts[number] = self._verdict(draft, before[draft.rule.denies])
        return [verdicts[number] for number in range(len(drafts))]

    def _add(self, rule: RuleSnapshot, covered: dict[Audience, Covered]) -> None:
        audience = audience_of(rule)
        if audience is not None:
            covered[audience].add(rule, self._offers.sets.covered_by(rule))

    def _verdict(self, draft: RuleDraft, before: dict[Audience, Covered]) -> Verdict:
        rule, models = draft.rule, self._offers.sets.covered_by(draft.rule)
        links = frozenset(
            number
            for number in draft.linked_provider_ids
            if rule.provider_id in (None, number) and self._offers.link_to(number) is not None
        )
        matches = bool(models or links)
        if not rule.denies:
            denies = _of_audience(rule, self._denies)
            for one in denies:
                models &= ~one.models
            links = frozenset(number for number in links if _first_link(rule, number, denies) is None)
        peers = _of_audience(rule, before) if draft.has_audience and (models or links) else []
        return Verdict(models, links, matches, _hiding_rules(rule, models, links, peers))


def survey_one(draft: RuleDraft, others: Iterable[RuleSnapshot], offers: Offers) -> Verdict:
    """The verdict of one draft."""
    return Survey(others, offers).verdicts([draft])[0]


def covered_models(draft: RuleDraft, others: Collection[RuleSnapshot], offers: Offers) -> list[Target]:
    """The models of enabled providers that the rule allows its audience, or denies it, by name and provider.

    A rule that allows does not cover what those of the others that deny refuse to its whole audience.
    """
    return list(offers.sets.members(survey_one(draft, others, offers).models))


def covered_links(draft: RuleDraft, others: Collection[RuleSnapshot], offers: Offers) -> list[Target]:
    """The providers that keys of the audience are linked to, and that the rule covers with any name that it matches."""
    links = sorted(survey_one(draft, others, offers).links)
    return [target for number in links if (target := offers.link_to(number)) is not None]


def warnings(draft: RuleDraft, others: Collection[RuleSnapshot], offers: Offers, *, nobody: str) -> list[str]:
    """Sentences on why the rule is for nobody, or does nothing that an earlier rule of its effect does not do.

    `others` are enabled rules, the rule itself perhaps among them. `nobody` is a sentence on why nobody in its audience
    can send requests, '' if somebody can.
    """
    return [problem.message for problem in problems_of(draft, survey_one(draft, others, offers), nobody=nobody)]


def problems_of(draft: RuleDraft, verdict: Verdict, *, nobody: str) -> list[RuleProblem]:
    """The same as problems."""
    problems = []
    verb = "denies" if draft.rule.denies else "allows"
    if not draft.enabled:
        problems.append(RuleProblem(Problem.DISABLED, "The rule is not enabled."))
    if not draft.has_audience:
        sentence = "The rule applies to nobody: choose a user, a group or everyone."
        problems.append(RuleProblem(Problem.NOBODY, sentence))
    if nobody:
        problems.append(RuleProblem(Problem.NOBODY, nobody))
    if not verdict.models and not verdict.links:
        reason = "Rules that deny refuse all that matches" if verdict.matches else NO_MODEL
        kind = Problem.DENIED if verdict.matches else Problem.UNREACHABLE
        problems.append(RuleProblem(kind, f"{reason}: the rule currently {verb} nothing."))
    elif verdict.hiding:
        verb = verb if len(verdict.hiding) == 1 else verb.replace("ies", "y").removesuffix("s")
        names = _listed([rule.name for rule in verdict.hiding])
        sentence = f"The rule has no effect: {names} {verb} the same requests before it."
        problems.append(RuleProblem(Problem.SHADOWED, sentence))
    return problems


def audience_of(rule: RuleSnapshot) -> Audience | None:
    """Whom the rule is for; None if it is for nobody."""
    if rule.everyone:
        return EVERYONE
    if rule.user_id is not None:
        return "user", rule.user_id
    return ("group", rule.group_id) if rule.group_id is not None else None


def _of_audience(rule: RuleSnapshot, covered: dict[Audience, Covered]) -> list[Covered]:
    """What is covered for the whole audience of the rule."""
    audiences = {EVERYONE, audience_of(rule) or EVERYONE}
    return [covered[audience] for audience in audiences if audience in covered]


def _hiding_rules(
    rule: RuleSnapshot, models: int, links: Iterable[int], peers: Sequence[Covered]
) -> list[RuleSnapshot]:
    """The earlier rules that cover all of these before the rule does; [] if one of them gets past."""
    hiding: dict[int, RuleSnapshot] = {}
    if models & ~_union_of(peers):
        return []
    for number in sorted(links):
        first = _first_link(rule, number, peers)
        if first is None:
            return []
        hiding[first.id] = first
    for first, covered in merge(*(one.rules for one in peers), key=lambda pair: pair[0].id):
        if covered & models:
            hiding[first.id] = first
            models &= ~covered
    return [hiding[number] for number in sorted(hiding)]


def _union_of(peers: Iterable[Covered]) -> int:
    models = 0
    for one in peers:
        models |= one.models
    return models


def _first_link(rule: RuleSnapshot, provider_id: int, covered: Iterable[Covered]) -> RuleSnapshot | None:
    """The first rule that covers a key linked to the provider with whatever name the rule matches."""
    text = _text(rule)
    candidates = (one for each in covered for one in each.linked(text) if one.provider_id in (None, provider_id))
    return min(candidates, key=lambda one: one.id, default=None)


def _text(rule: RuleSnapshot) -> str:
    return "" if rule.pattern is None else rule.pattern.pattern


def _listed(names: list[str]) -> str:
    quoted = [repr(name) for name in names[:MAX_NAMED]]
    if len(names) > MAX_NAMED:
        return f"{', '.join(quoted)} and {len(names) - MAX_NAMED} more"
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
