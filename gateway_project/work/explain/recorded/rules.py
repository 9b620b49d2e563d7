"""The rules for a request that has ended, as they were when it came."""

from collections.abc import Iterator
from dataclasses import replace

from gateway_project.work.explain.recorded.offers import caller_of, judged_name, judged_offers
from gateway_project.work.explain.rules import Consideration, shown_to
from gateway_project.work.snapshot.loading import rule_record
from rules.matching import RuleBook, RuleSnapshot
from rules.models import Rule
from rules.versions.history import rules_at
from telemetry.models import LogEntry


def consider_entry(entry: LogEntry, *, with_all: bool) -> Consideration:
    """The rules at that moment; `with_all`: those for others, too. Empty for a request that did not get to them."""
    name, caller = judged_name(entry), caller_of(entry)
    if entry.user_id is None or entry.candidates is None or not entry.model:
        return Consideration((), 0, name)
    book = RuleBook(_records(rules_at(entry.timestamp)))
    considered = book.consider_rules(name, judged_offers(entry), user_id=caller.id, group_ids=caller.group_ids)
    return shown_to(caller, considered, name, with_all=with_all)


def _records(rules: list[Rule]) -> Iterator[RuleSnapshot]:
    for rule in rules:
        record = rule_record(
            rule.pk,
            rule.name,
            rule.regex,
            rule.user_id,
            rule.group_id,
            bool(rule.everyone),
            rule.provider_id,
            rule.effect,
            rule.position,
        )
        if record is not None:
            yield replace(record, enabled=rule.enabled)
