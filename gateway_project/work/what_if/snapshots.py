"""A snapshot in which a draft is in force."""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import count
from typing import Any

from django.db.models import Max

from gateway_project.errors import ValidationError
from gateway_project.work.routing.aliases import AliasRow, Condition, TargetRow
from gateway_project.work.snapshot.loading import rule_record
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.what_if.drafts import Draft, RowDraft
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias, Strategy, default_causes
from rules.matching import RuleSnapshot
from rules.models import Effect, Rule
from rules.serializers import EVERYONE

Row = type[Rule] | type[Alias]


def drafted(snapshot: Snapshot, draft: Draft) -> Snapshot:
    """The snapshot with the draft in force. Raises ValidationError for the id of no row and the name of no alias."""
    after = copy(snapshot)
    after.put_rules(_rules(snapshot, draft))
    after.put_aliases(_aliases(snapshot, draft))
    return after


def _rules(snapshot: Snapshot, draft: Draft) -> Iterable[RuleSnapshot]:
    _require(Rule, draft.rules, draft.deleted_rules, "rules")
    rules = {rule_id: rule for rule_id, rule in snapshot.rule_rows.items() if rule_id not in draft.deleted_rules}
    for rule_id, values in _numbered(Rule, draft.rules):
        rules.pop(rule_id, None)
        if (record := _rule(rule_id, values)) is not None:
            rules[rule_id] = record
    return rules.values()


def _rule(rule_id: int, values: Mapping[str, Any]) -> RuleSnapshot | None:
    """The rule as requests are judged by it; None if it is disabled."""
    if not values.get("enabled", True):
        return None
    user_id, group_id = values.get("user_id"), values.get("group_id")
    return rule_record(
        rule_id,
        values["name"],
        values.get("regex") or "",
        user_id or None,
        group_id or None,
        EVERYONE in (user_id, group_id),
        values.get("provider_id") or None,
        values.get("effect", Effect.ALLOW),
    )


def _aliases(snapshot: Snapshot, draft: Draft) -> Iterable[AliasRow]:
    _require(Alias, draft.aliases, draft.deleted_aliases, "aliases")
    rows = {row.id: row for row in snapshot.alias_rows if row.id not in draft.deleted_aliases}
    numbered = list(_numbered(Alias, draft.aliases))
    ids = {row.name: row.id for row in rows.values()} | {values["name"]: alias_id for alias_id, values in numbered}
    for alias_id, values in numbered:
        rows[alias_id] = AliasRow(
            alias_id,
            values["name"],
            values.get("strategy", Strategy.WEIGHTED),
            frozenset(values.get("fallback_on", default_causes())),
            tuple(_target(target, ids) for target in values.get("targets", ())),
            enabled=values.get("enabled", True),
        )
    return rows.values()


def _target(target: TargetDraft, ids: Mapping[str, int]) -> TargetRow:
    if target.alias and target.alias not in ids:
        raise ValidationError(f"no alias named {target.alias}.", field="aliases")
    nested_id = ids[target.alias] if target.alias else None
    condition = Condition.from_json(target.match)
    return TargetRow(target.provider_id, target.model, nested_id, target.weight, target.tier, condition)


def _numbered(model: Row, drafts: Iterable[RowDraft]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The drafts with their ids; new ones come behind all others."""
    numbers = count((model._default_manager.aggregate(last=Max("pk"))["last"] or 0) + 1)
    for one in drafts:
        yield next(numbers) if one.id is None else one.id, one.values


def _require(model: Row, drafts: Iterable[RowDraft], deleted: Iterable[int], place: str) -> None:
    """Raise ValidationError unless there are rows with these ids; disabled ones are, too."""
    wanted = {one.id for one in drafts if one.id is not None} | set(deleted)
    if missing := wanted - set(model._default_manager.filter(pk__in=wanted).values_list("pk", flat=True)):
        raise ValidationError(f"no row with id {min(missing)}.", field=place)
