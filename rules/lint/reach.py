"""What each caller may use, for all callers at once. Pure.

It answers what RuleBook.judge() would for each model of each provider.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from rules.linter import EVERYONE, Audience, Offers, audience_of
from rules.matching import RuleSnapshot

Link = tuple[str, int | None]  # the pattern and the provider of a rule


class Reach:
    """The models that callers may use by these rules, which are enabled."""

    def __init__(self, rules: Iterable[RuleSnapshot], offers: Offers) -> None:
        self._allowed: dict[Audience, int] = defaultdict(int)
        self._denied: dict[Audience, int] = defaultdict(int)
        self._links: dict[tuple[bool, Audience], set[Link]] = defaultdict(set)
        for rule in rules:
            if (audience := audience_of(rule)) is not None:
                covered = self._denied if rule.denies else self._allowed
                covered[audience] |= offers.sets.covered_by(rule)
                text = "" if rule.pattern is None else rule.pattern.pattern
                self._links[rule.denies, audience].add((text, rule.provider_id))
        self._by_audiences: dict[tuple[Audience, ...], int] = {}
        self._by_links: dict[tuple[tuple[Audience, ...], int], bool] = {}

    def models_of(self, user_id: int, group_ids: Collection[int]) -> int:
        """The set of models that a caller may use with a key that is not linked."""
        audiences = self._audiences(user_id, group_ids)
        if audiences not in self._by_audiences:
            allowed = denied = 0
            for audience in audiences:
                allowed |= self._allowed.get(audience, 0)
                denied |= self._denied.get(audience, 0)
            self._by_audiences[audiences] = allowed & ~denied
        return self._by_audiences[audiences]

    def may_use_link(self, user_id: int, group_ids: Collection[int], provider_id: int) -> bool:
        """Whether rules may allow a caller some model name at the provider that a key is linked to."""
        audiences = self._audiences(user_id, group_ids)
        question = (audiences, provider_id)
        if question not in self._by_links:
            denied = self._patterns(audiences, provider_id, denies=True)
            allowed = self._patterns(audiences, provider_id, denies=False)
            self._by_links[question] = "" not in denied and bool(allowed - denied)
        return self._by_links[question]

    def _patterns(self, audiences: Iterable[Audience], provider_id: int, *, denies: bool) -> set[str]:
        links = (link for audience in audiences for link in self._links.get((denies, audience), ()))
        return {text for text, provider in links if provider in (None, provider_id)}

    def _audiences(self, user_id: int, group_ids: Collection[int]) -> tuple[Audience, ...]:
        """Those of the caller's audiences that rules are for."""
        own: list[Audience] = [EVERYONE, ("user", user_id), *(("group", number) for number in sorted(group_ids))]
        return tuple(one for one in own if (False, one) in self._links or (True, one) in self._links)
