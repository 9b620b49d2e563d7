"""What each caller may use, for all callers at once. Pure.

It answers what RuleBook.judge() would for each model of each provider, and judge_alias() for each target of an alias.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from rules.linter import EVERYONE, Audience, audience_of
from rules.matching import RuleSnapshot
from rules.offers import ConditionalTarget, OfferedAlias, Offers, may_match_alias, text_of

Pair = tuple[str, int | None]  # the pattern and the provider of a rule
Audiences = tuple[Audience, ...]


class Reach:
    """The models and aliases that callers may use by these rules, which are enabled."""

    def __init__(self, rules: Iterable[RuleSnapshot], offers: Offers) -> None:
        self._offers = offers
        self._allowed: dict[Audience, int] = defaultdict(int)
        self._denied: dict[Audience, int] = defaultdict(int)
        self._pairs: dict[tuple[bool, Audience], set[Pair]] = defaultdict(set)
        for rule in rules:
            if (audience := audience_of(rule)) is not None:
                covered = self._denied if rule.denies else self._allowed
                covered[audience] |= offers.sets.covered_by(rule)
                self._pairs[rule.denies, audience].add((text_of(rule), rule.provider_id))
        self._by_audiences: dict[Audiences, int] = {}
        self._by_links: dict[tuple[Audiences, int], bool] = {}

    def audiences_of(self, user_id: int, group_ids: Collection[int]) -> Audiences:
        """Those of the caller's audiences that rules are for: who has the same may use the same."""
        own: list[Audience] = [EVERYONE, ("user", user_id), *(("group", number) for number in sorted(group_ids))]
        return tuple(one for one in own if (False, one) in self._pairs or (True, one) in self._pairs)

    def names_of(self, audiences: Audiences) -> int:
        """The names that rules let them ask for with a key that is not linked: a set of Offers.sets.

        A model among them can be used; of an alias, one of its targets has to be among them as well.
        """
        if audiences not in self._by_audiences:
            allowed = denied = 0
            for audience in audiences:
                allowed |= self._allowed.get(audience, 0)
                denied |= self._denied.get(audience, 0)
            self._by_audiences[audiences] = allowed & ~denied & self._offers.served
        return self._by_audiences[audiences]

    def models_of(self, user_id: int, group_ids: Collection[int]) -> int:
        """The set of models that a caller may use with a key that is not linked."""
        return self.names_of(self.audiences_of(user_id, group_ids)) & self._offers.model_names

    def may_use_link(self, user_id: int, group_ids: Collection[int], provider_id: int) -> bool:
        """Whether rules may allow a caller some model name at the provider that a key is linked to."""
        question = (self.audiences_of(user_id, group_ids), provider_id)
        if question not in self._by_links:
            self._by_links[question] = bool(self._patterns(*question))
        return self._by_links[question]

    def targets_of(self, audiences: Audiences, alias: OfferedAlias) -> list[ConditionalTarget]:
        """The targets with which rules let them use an alias, of one with stars perhaps; whatever their conditions."""
        names = self.names_of(audiences)
        own = [one for one in alias.targets if names & self._offers.sets.of(one.target)]
        providers = self.providers_of(audiences, alias) if own else ()
        return [one for one in own if one.target.provider.id in providers]

    def providers_of(self, audiences: Audiences, alias: OfferedAlias) -> list[int]:
        """The providers with which rules let them ask for the name of an alias, of one with stars perhaps."""
        return [number for number in alias.providers if self._may_ask(audiences, alias, number)]

    def _may_ask(self, audiences: Audiences, alias: OfferedAlias, provider_id: int) -> bool:
        if not alias.is_pattern:
            return bool(self.names_of(audiences) & self._offers.name_with(alias, provider_id))
        return any(may_match_alias(text, alias) for text in self._patterns(audiences, provider_id))

    def _patterns(self, audiences: Audiences, provider_id: int) -> set[str]:
        """The patterns of which rules may allow some name at the provider."""
        allowed, denied = ({*self._texts(audiences, provider_id, denies=denies)} for denies in (False, True))
        return set() if "" in denied else allowed - denied

    def _texts(self, audiences: Audiences, provider_id: int, *, denies: bool) -> Iterable[str]:
        pairs = (pair for audience in audiences for pair in self._pairs.get((denies, audience), ()))
        return (text for text, provider in pairs if provider in (None, provider_id))
