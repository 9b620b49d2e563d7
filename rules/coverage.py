"""Which of the offered models rules cover, for thousands of rules at once. Pure.

A set of targets is an integer with one bit for each of them, in the order in which they are shown.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from gateway_project.name_patterns import Pattern
from providers.catalogue import Target
from rules.matching import RuleSnapshot

LITERAL = r"(?:[A-Za-z0-9_:/@ -]|\\[.+-])"
BEGINNING = re.compile(f"{LITERAL}*")
# Alternatives of literals and dots, such as gpt-4.*|o\.mini: of these the beginning of each alternative is known.
SIMPLE = re.compile(rf"(?:{LITERAL}|\.\*|\.|\|)*")
QUANTIFIERS = tuple("?*+{")
BEYOND = "\U0010ffff"  # sorts after every other character


class TargetSets:
    """The sets of targets that patterns and providers cover."""

    def __init__(self, targets: Sequence[Target]) -> None:
        """The targets are sorted by model."""
        self.targets = targets
        self.all = (1 << len(targets)) - 1
        self._names = sorted({target.model for target in targets})
        self._ends = self._ends_of_names()
        # A dot matches no line break.
        self._has_breaks = any("\n" in name for name in self._names)
        self._of_providers: dict[int, int] = {}
        for number, target in enumerate(targets):
            self._of_providers[target.provider.id] = self._of_providers.get(target.provider.id, 0) | 1 << number
        self._of_patterns: dict[str, int] = {}

    def of(self, target: Target) -> int:
        """The set of this target; empty if it is not among them."""
        return self._targets_named(target.model) & self._of_providers.get(target.provider.id, 0)

    def covered_by(self, rule: RuleSnapshot) -> int:
        """What the rule covers of these, whomever it is for."""
        covered = self.all if rule.pattern is None else self.matching_targets(rule.pattern)
        return covered if rule.provider_id is None else covered & self._of_providers.get(rule.provider_id, 0)

    def matching_targets(self, pattern: Pattern) -> int:
        """The targets whose model's whole name the pattern matches."""
        text = pattern.pattern
        if text not in self._of_patterns:
            self._of_patterns[text] = self._match(pattern)
        return self._of_patterns[text]

    def members(self, numbers: int) -> Iterator[Target]:
        """The targets of a set."""
        while numbers:
            lowest = numbers & -numbers
            yield self.targets[lowest.bit_length() - 1]
            numbers ^= lowest

    def _match(self, pattern: Pattern) -> int:
        text = pattern.pattern
        if self._has_breaks:
            return self._match_each(pattern, "")
        if SIMPLE.fullmatch(text):
            return _union(self._alternative(pattern, one) for one in text.split("|"))
        return self._match_each(pattern, "" if "|" in text else literal_prefix(text))

    def _alternative(self, pattern: Pattern, text: str) -> int:
        literal, rest = literal_prefix(text), rest_of(text)
        if rest == ".*":
            return self._targets_between(*self._range(literal))
        if rest:
            return self._match_each(pattern, literal)
        return self._targets_named(literal)

    def _targets_named(self, name: str) -> int:
        """The targets with this name."""
        place = bisect_left(self._names, name)
        return self._targets_between(place, place + 1) if self._names[place : place + 1] == [name] else 0

    def _match_each(self, pattern: Pattern, literal: str) -> int:
        """The targets that the pattern matches, among those whose names begin with the literal."""
        places = (place for place in range(*self._range(literal)) if pattern.fullmatch(self._names[place]))
        return _union(self._targets_between(place, place + 1) for place in places)

    def _range(self, literal: str) -> tuple[int, int]:
        """The places of the names that begin with the literal."""
        return bisect_left(self._names, literal), bisect_left(self._names, literal + BEYOND)

    def _targets_between(self, first: int, last: int) -> int:
        """The targets of the names at these places, without the last."""
        return (1 << self._ends[last]) - (1 << self._ends[first])

    def _ends_of_names(self) -> list[int]:
        """How many targets there are before each name, and in all."""
        numbers = dict.fromkeys(self._names, 0)
        for target in self.targets:
            numbers[target.model] += 1
        ends = [0]
        for number in numbers.values():
            ends.append(ends[-1] + number)
        return ends


def literal_prefix(pattern: str) -> str:
    """A text with which all matches of a pattern without alternatives begin; perhaps shorter than it could be."""
    match = BEGINNING.match(pattern)
    assert match is not None, "it matches the empty text"
    literal = match.group()
    if pattern[match.end() :].startswith(QUANTIFIERS):
        literal = literal[:-2] if literal[-2:-1] == "\\" else literal[:-1]
    return literal.replace("\\", "")


def rest_of(pattern: str) -> str:
    """What stands behind the characters with which a pattern begins; '' if they are all of it."""
    return pattern[BEGINNING.match(pattern).end() :]  # type: ignore[union-attr]  # it matches the empty text


def may_match_like(pattern: str, prefix: str, fits: Callable[[str], bool]) -> bool:
    """Whether a pattern may match a text that fits; all that do begin with the prefix. True where nobody knows."""
    if SIMPLE.fullmatch(pattern):
        return any(_may_match_like(one, prefix, fits) for one in pattern.split("|"))
    return "|" in pattern or _may_match_like(pattern, prefix, fits)


def _may_match_like(alternative: str, prefix: str, fits: Callable[[str], bool]) -> bool:
    literal = literal_prefix(alternative)
    if not rest_of(alternative):
        return fits(literal)
    return literal.startswith(prefix) or prefix.startswith(literal)


def _union(sets: Iterable[int]) -> int:
    result = 0
    for names in sets:
        result |= names
    return result
