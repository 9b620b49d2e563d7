"""Stored rules as the judgement takes them."""

from django.db.models import QuerySet

from gateway_project.errors import ValidationError
from gateway_project.name_patterns import Pattern
from rules.coverage import literal_prefix
from rules.matching import RuleSnapshot
from rules.models import Effect, Rule
from rules.patterns import compile_pattern

LAST = 2**63  # the id of a rule that is not stored yet


def snapshot_of(rule: Rule) -> RuleSnapshot:
    """The rule, stored or not, as RuleBook takes it. Raises ValidationError for a pattern that does not compile."""
    return _snapshot(rule, compile_pattern(rule.regex) if rule.regex else None)


def judged_snapshot_of(rule: Rule) -> RuleSnapshot | None:
    """The rule as requests are judged by it: with an unreadable pattern it allows nothing, or denies every model."""
    try:
        return snapshot_of(rule)
    except ValidationError:
        return _snapshot(rule, None) if rule.denies else None


def rules_matching(rules: QuerySet[Rule], name: str) -> list[int]:
    """The ids of the rules that judge a model of this name, for any caller."""
    rows = rules.order_by().values_list("pk", "regex", "effect")
    return [number for number, regex, effect in rows if _matches(regex, name, denies=effect == Effect.DENY)]


def count_judging(model: str, provider: str) -> int:
    """The number of rules that judge a model at the provider with this name, for any caller."""
    return len(rules_matching(Rule.objects.enabled().applying_at(provider), model))


def _matches(regex: str, name: str, *, denies: bool) -> bool:
    """As judged_snapshot_of() says. Most patterns that match no such name need not be compiled."""
    if not regex:
        return True
    if not denies and "|" not in regex and not name.startswith(literal_prefix(regex)):
        return False
    try:
        return compile_pattern(regex).fullmatch(name) is not None
    except ValidationError:
        return denies


def _snapshot(rule: Rule, pattern: Pattern | None) -> RuleSnapshot:
    return RuleSnapshot(
        id=LAST if rule.pk is None else rule.pk,
        name=rule.name,
        pattern=pattern,
        user_id=rule.user_id,
        group_id=rule.group_id,
        everyone=bool(rule.everyone),
        provider_id=rule.provider_id,
        denies=rule.denies,
        enabled=rule.enabled,
        position=rule.position,
    )
