"""A snapshot in which a draft is in force."""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from datetime import UTC, datetime
from itertools import count
from typing import Any

from django.db.models import Max

from accounts.models import Group, User
from gateway_project.api.names import camel
from gateway_project.errors import ValidationError
from gateway_project.work.routing.aliases import AliasRow, Condition, TargetRow
from gateway_project.work.snapshot.loading import rule_record
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.what_if.drafts import ALIASES, PRICES, RULES, Draft, RowDraft
from providers.models import ModelPrice, Provider
from providers.pricing.prices import Offer, PriceBook
from rules.aliases.drafts import TargetDraft
from rules.aliases.models import Alias, Strategy, default_causes
from rules.matching import DEFAULT_POSITION, RuleSnapshot
from rules.models import Effect, Rule
from rules.serializers import EVERYONE

Row = type[Rule] | type[Alias] | type[ModelPrice]
# What the attributes of a rule refer to, by their names; 0 is everyone, or every provider.
RULE_REFERENCES = {"user_id": User, "group_id": Group, "provider_id": Provider}


def draft_snapshot(snapshot: Snapshot, draft: Draft) -> Snapshot:
    """The snapshot with the draft's rules, aliases and prices in force.

    Raises ValidationError for the id of no row and the name of no alias.
    """
    after = copy(snapshot)
    after.put_rules(_rules(snapshot, draft))
    after.put_aliases(_aliases(snapshot, draft))
    if draft.changes(PRICES):
        after.prices = _prices(draft)
    return after


def _rules(snapshot: Snapshot, draft: Draft) -> Iterable[RuleSnapshot]:
    _require(Rule, draft, RULES)
    _require_references(draft.of(RULES))
    deleted_ids = draft.deleted_ids(RULES)
    rules = {rule_id: rule for rule_id, rule in snapshot.rule_rows.items() if rule_id not in deleted_ids}
    for rule_id, values in _number_drafts(Rule, draft.of(RULES)):
        rules.pop(rule_id, None)
        if (record := _rule(rule_id, values)) is not None:
            rules[rule_id] = record
    return rules.values()


def _require_references(drafts: Iterable[RowDraft]) -> None:
    """Raise ValidationError for a rule for a user, group or provider that is not there."""
    for name, model in RULE_REFERENCES.items():
        ids = [(row.place, row_id) for row in drafts if (row_id := row.values.get(name))]
        existing = set(model._default_manager.filter(pk__in=[row_id for _, row_id in ids]).values_list("pk", flat=True))
        for place, row_id in ids:
            if row_id not in existing:
                raise ValidationError(
                    f"no {model._meta.verbose_name} with id {row_id}.", field=f"{place}.{camel(name)}"
                )


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
        values.get("position", DEFAULT_POSITION),
    )


def _aliases(snapshot: Snapshot, draft: Draft) -> Iterable[AliasRow]:
    _require(Alias, draft, ALIASES)
    deleted_ids = draft.deleted_ids(ALIASES)
    rows = {row.id: row for row in snapshot.alias_rows if row.id not in deleted_ids}
    numbered = list(_number_drafts(Alias, draft.of(ALIASES)))
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


def _number_drafts(model: Row, drafts: Iterable[RowDraft]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The drafts with their ids; new ones come behind all others."""
    numbers = count((model._default_manager.aggregate(last=Max("pk"))["last"] or 0) + 1)
    for draft in drafts:
        yield next(numbers) if draft.id is None else draft.id, draft.values


def _prices(draft: Draft) -> PriceBook:
    """The prices of now with those of the draft, which hold at any time."""
    _require(ModelPrice, draft, PRICES)
    prices = ModelPrice.objects.not_over().exclude(pk__in=draft.replaced_ids(PRICES))
    return PriceBook([*(row.offer for row in prices), *map(_offer, draft.of(PRICES))])


def _offer(row: RowDraft) -> Offer:
    values = {**row.values, "valid_from": datetime.fromtimestamp(0, UTC)}
    values["host"], values["model"] = values.get("host", "").lower(), values["model"].lower()
    return ModelPrice(**values).offer


def _require(model: Row, draft: Draft, kind: str) -> None:
    """Raise ValidationError unless there are rows with the ids of this kind; disabled ones are, too."""
    ids = draft.replaced_ids(kind)
    if missing := ids - set(model._default_manager.filter(pk__in=ids).values_list("pk", flat=True)):
        raise ValidationError(f"no row with id {min(missing)}.", field=kind)
