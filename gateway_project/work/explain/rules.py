"""Each rule that was considered for a request, and why it matched or did not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from accounts.models import Group
from gateway_project.json_types import JsonObject
from gateway_project.work.explain.walk import Walk
from gateway_project.work.snapshot.loading import RULE_COLUMNS, rule_record
from gateway_project.work.snapshot.records import Caller, Snapshot, Target
from gateway_project.work.stages.rules import permitted_targets, requested_targets
from rules.matching import ConsideredRule, Mismatch, RuleBook, RuleSnapshot, name_of
from rules.models import Rule


class Consideration(NamedTuple):
    """The rules that a viewer may see, in the order of judging, and the number of those that they may not."""

    rules: Sequence[ConsideredRule]
    hidden: int
    model: str  # as the rules judge it
    lacks_targets: bool = False  # it is that of an alias, and rules allow none of its targets


def consider_rules(walk: Walk, *, with_all: bool) -> Consideration:
    """The rules for the request; `with_all`: those for others, too. Empty if the request did not get to them."""
    exchange, snapshot = walk.exchange, walk.gateway.snapshot
    caller = exchange.identity.caller
    if caller is None or exchange.request is None:
        return Consideration((), 0, exchange.model)
    name, offers, lacks_targets = _judged_name_and_targets(walk, caller, snapshot)
    book = RuleBook([*snapshot.rules.rules, *_disabled_rules(snapshot)])
    considered = book.consider_rules(name, offers, user_id=caller.id, group_ids=caller.group_ids)
    return shown_to(caller, considered, name, with_all=with_all)._replace(lacks_targets=lacks_targets)


def shown_to(caller: Caller, considered: Sequence[ConsideredRule], name: str, *, with_all: bool) -> Consideration:
    """The rules that are for this caller; `with_all`: those for others, too."""
    visible = [verdict for verdict in considered if with_all or is_for(verdict.rule, caller)]
    return Consideration(visible, len(considered) - len(visible), name)


def rows_of(consideration: Consideration, snapshot: Snapshot) -> list[JsonObject]:
    """The rules as data, with the names of what they are about."""
    groups = _group_names(consideration)
    return [
        {
            "id": verdict.rule.id,
            "name": verdict.rule.name,
            "effect": "deny" if verdict.rule.denies else "allow",
            "matched": verdict.has_matched,
            "reason": _reason(verdict, consideration, snapshot, groups),
        }
        for verdict in consideration.rules
    ]


def _disabled_rules(snapshot: Snapshot) -> Iterator[RuleSnapshot]:
    """The disabled rules, which the snapshot does not have: nothing is judged by them."""
    for row in Rule.objects.filter(enabled=False).values_list(*RULE_COLUMNS):
        record = rule_record(*row)
        if record is not None and record.id not in snapshot.rule_rows:
            yield replace(record, enabled=False)


def _judged_name_and_targets(walk: Walk, caller: Caller, snapshot: Snapshot) -> tuple[str, tuple[Target, ...], bool]:
    """The name and the targets that the rules judge, and whether they are none because rules allow none."""
    exchange, requested = walk.exchange, requested_targets(walk.exchange)
    is_alias = exchange.decision.alias is not None
    name = exchange.model if is_alias else name_of(exchange.model, requested)
    targets = permitted_targets(name, requested, exchange.identity.key) or ()
    if not is_alias:
        return name, targets, False
    allows = snapshot.rules.allows
    allowed = tuple(target for target in targets if allows(target, user_id=caller.id, group_ids=caller.group_ids))
    return name, allowed, bool(targets) and not allowed


def is_for(rule: RuleSnapshot, caller: Caller) -> bool:
    """Whether the rule is for this caller, enabled or not."""
    return rule.everyone or rule.user_id == caller.id or rule.group_id in caller.group_ids


def _group_names(consideration: Consideration) -> Mapping[int, str]:
    ids = {verdict.rule.group_id for verdict in consideration.rules if verdict.mismatch is Mismatch.GROUP}
    return dict(Group.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}


def _reason(
    verdict: ConsideredRule, consideration: Consideration, snapshot: Snapshot, groups: Mapping[int, str]
) -> str:
    rule, mismatch = verdict
    if mismatch is None:
        return ALIAS_ONLY if consideration.lacks_targets and not rule.denies else _effect(rule, snapshot)
    if mismatch is Mismatch.USER:
        user = snapshot.callers.get(rule.user_id or 0)
        return f"It is for user {user.name if user is not None else rule.user_id}."
    if mismatch is Mismatch.GROUP:
        return f"It is for group {groups.get(rule.group_id or 0, rule.group_id)}. The user is not a member of it."
    if mismatch is Mismatch.MODEL:
        pattern = rule.pattern.pattern if rule.pattern is not None else ""
        return f"Its pattern {pattern} does not match the model {consideration.model}."
    if mismatch is Mismatch.PROVIDER:
        return f"It is about {_provider(rule, snapshot)}, which is not among those that could serve the request."
    return REASONS[mismatch]


ALIAS_ONLY = "It allows the name of the alias, but no rule allows one of its targets."
REASONS = {
    Mismatch.DISABLED: "It is disabled.",
    Mismatch.DECIDED: "It was not needed: a rule before it decided.",
    Mismatch.NOBODY: "It is for nobody: its user or group was deleted.",
}


def _effect(rule: RuleSnapshot, snapshot: Snapshot) -> str:
    if rule.provider_id is None:
        return "It refuses the request." if rule.denies else "It allows the request."
    provider = _provider(rule, snapshot)
    return f"It leaves out {provider}." if rule.denies else f"It allows the request at {provider}."


def _provider(rule: RuleSnapshot, snapshot: Snapshot) -> str:
    provider = snapshot.providers.get(rule.provider_id or 0)
    return f"provider {provider.name if provider is not None else rule.provider_id}"
