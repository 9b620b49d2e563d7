"""The rules that access tests need, for thousands of rules and tests: each row is compiled once, all names at once."""

from collections.abc import Collection
from typing import Any

from gateway_project.name_patterns import Pattern, compile_pattern, names_by_pattern
from gateway_project.work.runtime import running_gateway
from gateway_project.work.snapshot.loading import RULE_COLUMNS, rule_record
from rules.matching import RuleBook, RuleSnapshot
from rules.models import Rule


class StoredRules:
    """The stored rules of some audiences; what has not changed since they were loaded last is not compiled again."""

    def __init__(self) -> None:
        self._records: dict[tuple[object, ...], RuleSnapshot | None] = {}
        self._names: frozenset[str] = frozenset()
        self._matches: dict[str, list[str]] = {}
        self._patterns = _patterns_in_memory()

    def load(self, user_ids: Collection[int], group_ids: Collection[int]) -> list[RuleSnapshot]:
        """The enabled rules for everyone, these users and these groups, as requests are judged by them."""
        rows = Rule.objects.enabled().for_any_of(user_ids, group_ids).values_list(*RULE_COLUMNS)
        former = self._records
        self._records = {row: former[row] if row in former else self._record(row) for row in rows}
        return [record for record in self._records.values() if record is not None]

    def _record(self, row: tuple[Any, ...]) -> RuleSnapshot | None:
        return rule_record(*row, compiled=self._compile_pattern)

    def prepare(self, book: RuleBook, names: frozenset[str]) -> None:
        """Compute which of the names each pattern of the rule book matches."""
        if names != self._names:
            self._names, self._matches = names, {}
        texts = {rule.pattern.pattern for rule in book.rules if rule.pattern is not None}
        self._matches |= names_by_pattern(texts - self._matches.keys(), names)
        book.expect(names, self._matches)

    def _compile_pattern(self, text: str) -> Pattern:
        """The pattern; many rules have the same. Raises ValidationError."""
        if text not in self._patterns:
            self._patterns[text] = compile_pattern(text)
        return self._patterns[text]


def _patterns_in_memory() -> dict[str, Pattern]:
    """The patterns that requests to this process are judged by, by their texts."""
    gateway = running_gateway()
    rules = () if gateway is None else gateway.snapshot.rule_rows.values()
    return {rule.pattern.pattern: rule.pattern for rule in rules if rule.pattern is not None}
