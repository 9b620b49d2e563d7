"""Checks of rules for administrators: what each allows or denies, and whether it has any effect. Pure.

It answers what RuleBook.judge() and judge_alias() would, for the requests that somebody in a rule's audience can send:
each model of each provider, each alias, any name that fits an alias with stars, and any model name with a key that is
linked to a provider. It does so for all rules in one pass.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import merge
from types import MappingProxyType
from typing import NamedTuple

from accounts.group_tree import with_ancestors
from providers.catalogue import Target
from rules.matching import RuleSnapshot, order_of
from rules.offers import Offers, may_match_alias, text_of

MAX_NAMED = 3
NO_MODEL = "No model or alias of an enabled provider matches"

Audience = tuple[str, int]  # ("everyone", 0), ("user", id) or ("group", id)
EVERYONE: Audience = ("everyone", 0)
Parents = Mapping[int, int]  # the group above, by the child's id
NO_PARENTS: Parents = MappingProxyType({})


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
    ALIAS_FOR_NOBODY = "aliasForNobody"


class RuleProblem(NamedTuple):
    """A problem of a rule, in a sentence, and the other rules that it names."""

    problem: Problem
    message: str
    rules: Sequence[RuleSnapshot] = ()


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

    names: int  # of models and aliases: a set of Offers.sets
    links: frozenset[int]  # the providers of linked keys
    patterns: frozenset[int]  # the providers of aliases with stars (Offers.pattern_providers())
    matches: bool  # whether it covers anything if no other rule denies it
    hiding: Sequence[RuleSnapshot] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.names or self.links or self.patterns)


@dataclass(slots=True)
class CoveredModels:
    """What the rules of one effect and audience cover, as far as they have been added in order."""

    names: int = 0
    rules: list[tuple[RuleSnapshot, int]] = field(default_factory=list)  # those that cover what none before them does
    # By pattern: of two patterns nobody knows whether one matches all that the other does, unless they are the same.
    patterns: dict[str, list[RuleSnapshot]] = field(default_factory=lambda: defaultdict(list))

    def add(self, rule: RuleSnapshot, names: int) -> None:
        """Add the next rule, with what it covers."""
        if names & ~self.names:
            self.rules.append((rule, names))
            self.names |= names
        same = self.patterns[text_of(rule)]
        if len({one.provider_id for one in same} | {rule.provider_id}) > len(same):
            same.append(rule)

    def covering_rules(self, text: str) -> Iterator[RuleSnapshot]:
        """The rules that surely match all names that a rule with this pattern matches."""
        yield from self.patterns.get("", ())
        if text:
            yield from self.patterns.get(text, ())


class Survey:
    """Judges drafts among other rules, all of which are enabled, in one pass over both in order.

    The rules of a group are for the members of the groups below it as well.
    """

    def __init__(self, others: Iterable[RuleSnapshot], offers: Offers, parents: Parents = NO_PARENTS) -> None:
        self._offers, self._parents = offers, parents
        self._others = sorted(others, key=order_of)
        self._denies: dict[Audience, CoveredModels] = defaultdict(CoveredModels)
        for rule in self._others:
            if rule.denies:
                self._add(rule, self._denies)

    def verdicts(self, drafts: Iterable[RuleDraft]) -> list[Verdict]:
        """The verdict of each draft; the draft itself is perhaps among the others."""
        drafts = list(drafts)
        before = {
            True: defaultdict[Audience, CoveredModels](CoveredModels),
            False: defaultdict[Audience, CoveredModels](CoveredModels),
        }
        rules, verdicts = iter([*self._others, None]), dict[int, Verdict]()
        rule = next(rules)
        for number in sorted(range(len(drafts)), key=lambda number: order_of(drafts[number].rule)):
            draft = drafts[number]
            while rule is not None and order_of(rule) < order_of(draft.rule):
                self._add(rule, before[rule.denies])
                rule = next(rules)
            verdicts[number] = self._verdict(draft, before[draft.rule.denies])
        return [verdicts[number] for number in range(len(drafts))]

    def _add(self, rule: RuleSnapshot, covered: dict[Audience, CoveredModels]) -> None:
        audience = audience_of(rule)
        if audience is not None:
            covered[audience].add(rule, self._offers.sets.covered_by(rule))

    def _verdict(self, draft: RuleDraft, before: dict[Audience, CoveredModels]) -> Verdict:
        rule, names, links = draft.rule, self._names(draft.rule), self._links(draft)
        patterns = self._offers.pattern_providers(rule)
        matches = bool(names or links or patterns)
        if not rule.denies:
            denies = self._of_audience(rule, self._denies)
            names &= ~_union_of(denies)
            links, patterns = (_without_covered(rule, numbers, denies) for numbers in (links, patterns))
        peers = self._of_audience(rule, before) if draft.has_audience and (names or links or patterns) else []
        return Verdict(names, links, patterns, matches, _hiding_rules(rule, names, links | patterns, peers))

    def _of_audience(self, rule: RuleSnapshot, covered: dict[Audience, CoveredModels]) -> list[CoveredModels]:
        """What is covered for the whole audience of the rule."""
        audiences = {EVERYONE, audience_of(rule) or EVERYONE}
        if rule.group_id is not None:
            audiences |= {("group", group_id) for group_id in with_ancestors([rule.group_id], self._parents)}
        return [covered[audience] for audience in audiences if audience in covered]

    def _names(self, rule: RuleSnapshot) -> int:
        """What the rule covers; of a rule that denies also what cannot serve, but can be chosen for a request."""
        covered = self._offers.sets.covered_by(rule)
        return covered if rule.denies else covered & self._offers.served

    def _links(self, draft: RuleDraft) -> frozenset[int]:
        return frozenset(
            number
            for number in draft.linked_provider_ids
            if draft.rule.provider_id in (None, number) and self._offers.link_to(number) is not None
        )


def survey_one(
    draft: RuleDraft, others: Iterable[RuleSnapshot], offers: Offers, parents: Parents = NO_PARENTS
) -> Verdict:
    """The verdict of one draft."""
    return Survey(others, offers, parents).verdicts([draft])[0]


def covered_models(
    draft: RuleDraft, others: Collection[RuleSnapshot], offers: Offers, parents: Parents = NO_PARENTS
) -> list[Target]:
    """The models of enabled providers that the rule allows its audience, or denies it, by name and provider.

    A rule that allows does not cover what those of the others that deny refuse to its whole audience.
    """
    return list(offers.sets.members(survey_one(draft, others, offers, parents).names & offers.model_names))


def covered_aliases(
    draft: RuleDraft, others: Collection[RuleSnapshot], offers: Offers, parents: Parents = NO_PARENTS
) -> list[str]:
    """The names of the aliases that the rule covers, or some names of, if they have stars; in alphabetical order."""
    verdict, text = survey_one(draft, others, offers, parents), text_of(draft.rule)
    names = {target.model for target in offers.sets.members(verdict.names & offers.alias_names)}
    patterns = (one for one in offers.aliases if one.is_pattern and not verdict.patterns.isdisjoint(one.providers))
    return sorted(names | {one.name for one in patterns if may_match_alias(text, one)})


def covered_links(
    draft: RuleDraft, others: Collection[RuleSnapshot], offers: Offers, parents: Parents = NO_PARENTS
) -> list[Target]:
    """The providers that keys of the audience are linked to, and that the rule covers with any name that it matches."""
    links = sorted(survey_one(draft, others, offers, parents).links)
    return [target for number in links if (target := offers.link_to(number)) is not None]


def problems_of(draft: RuleDraft, verdict: Verdict, *, nobody: str) -> list[RuleProblem]:
    """Why the rule is for nobody, or does nothing that an earlier rule of its effect does not do.

    `nobody` is a sentence on why nobody in its audience can send requests, '' if somebody can.
    """
    problems = []
    verb = "denies" if draft.rule.denies else "allows"
    if not draft.enabled:
        problems.append(RuleProblem(Problem.DISABLED, "The rule is not enabled."))
    if not draft.has_audience:
        sentence = "The rule applies to nobody: choose a user, a group or everyone."
        problems.append(RuleProblem(Problem.NOBODY, sentence))
    if nobody:
        problems.append(RuleProblem(Problem.NOBODY, nobody))
    if verdict.is_empty:
        reason = "Rules that deny refuse everything that the rule matches" if verdict.matches else NO_MODEL
        kind = Problem.DENIED if verdict.matches else Problem.UNREACHABLE
        problems.append(RuleProblem(kind, f"{reason}: the rule currently {verb} nothing."))
    elif verdict.hiding:
        verb = verb if len(verdict.hiding) == 1 else verb.replace("ies", "y").removesuffix("s")
        names = _quote_names([rule.name for rule in verdict.hiding])
        sentence = f"The rule has no effect: {names} {verb} the same requests before it."
        problems.append(RuleProblem(Problem.SHADOWED, sentence, verdict.hiding))
    return problems


def audience_of(rule: RuleSnapshot) -> Audience | None:
    """Whom the rule is for; None if it is for nobody."""
    if rule.everyone:
        return EVERYONE
    if rule.user_id is not None:
        return "user", rule.user_id
    return ("group", rule.group_id) if rule.group_id is not None else None


def _hiding_rules(
    rule: RuleSnapshot, names: int, provider_ids: Iterable[int], peers: Sequence[CoveredModels]
) -> list[RuleSnapshot]:
    """The earlier rules that cover all of these before the rule does; [] if one of them gets past."""
    hiding: dict[int, RuleSnapshot] = {}
    if names & ~_union_of(peers):
        return []
    for number in sorted(provider_ids):
        first = _first_rule(rule, number, peers)
        if first is None:
            return []
        hiding[first.id] = first
    for first, covered in merge(*(one.rules for one in peers), key=lambda pair: order_of(pair[0])):
        if covered & names:
            hiding[first.id] = first
            names &= ~covered
    return sorted(hiding.values(), key=order_of)


def _union_of(peers: Iterable[CoveredModels]) -> int:
    names = 0
    for peer in peers:
        names |= peer.names
    return names


def _without_covered(
    rule: RuleSnapshot, provider_ids: Iterable[int], covered: Collection[CoveredModels]
) -> frozenset[int]:
    """Those of the providers where none of these rules surely covers whatever name the rule matches."""
    return frozenset(number for number in provider_ids if _first_rule(rule, number, covered) is None)


def _first_rule(rule: RuleSnapshot, provider_id: int, covered: Iterable[CoveredModels]) -> RuleSnapshot | None:
    """The first rule that surely covers whatever name the rule matches at the provider."""
    text = text_of(rule)
    candidates = (
        one for each in covered for one in each.covering_rules(text) if one.provider_id in (None, provider_id)
    )
    return min(candidates, key=order_of, default=None)


def _quote_names(names: list[str]) -> str:
    quoted = [repr(name) for name in names[:MAX_NAMED]]
    if len(names) > MAX_NAMED:
        return f"{', '.join(quoted)} and {len(names) - MAX_NAMED} more"
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
