"""Writes a version for each change of a rule, in the transaction that makes the change."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from django.conf import settings

from accounts.models import Group, User
from gateway_project.api.audit import current_actor
from rules.models import Everyone, Rule, RuleVersion
from rules.versions.models import RuleChange

Value: TypeAlias = str | int | bool | None
Attributes: TypeAlias = Mapping[str, Value]
MAX_DELETED = 1000  # rules whose versions are kept after they were deleted
MAX_DELETED_OF_GROUP = 100  # of those that admins of one group wrote


def attributes_of(rule: Rule) -> dict[str, Value]:
    """The rule as the parameters of rules.services.create_rule()."""
    return {
        "name": rule.name,
        "description": rule.description,
        "enabled": rule.enabled,
        "effect": str(rule.effect),
        "position": rule.position,
        "regex": rule.regex,
        "user_id": 0 if rule.everyone == Everyone.USER else rule.user_id,
        "group_id": 0 if rule.everyone == Everyone.GROUP else rule.group_id,
        "provider_id": rule.provider_id,
    }


def record_first_version(rule: Rule) -> None:
    """Write the stored rule, which is about to change, as a version if it has none yet."""
    if not RuleVersion.objects.of(rule.pk).exists():
        _append(rule.pk, RuleChange.INITIAL, attributes_of(rule), None, moment=rule.updated_at)


def record_version(rule: Rule, change: RuleChange) -> None:
    """Write the rule as it is now as its newest version; an update that changes nothing writes none."""
    record_attributes(rule.pk, change, attributes_of(rule), is_delegated=rule.is_delegated)


def record_attributes(rule_id: int, change: RuleChange, attributes: Attributes, *, is_delegated: bool = False) -> None:
    """The same for a rule with these attributes."""
    former = RuleVersion.objects.of(rule_id).first()
    if change == RuleChange.UPDATE and former is not None and former.attributes == attributes:
        return
    _append(rule_id, change, attributes, former, is_delegated=is_delegated)
    _remove_oldest(rule_id)
    if change == RuleChange.DELETE:
        _forget_deleted_rules(attributes["group_id"] if is_delegated else None)


def record_loss_of_audience(sender: type[User] | type[Group], instance: User | Group, **signal: object) -> None:
    """Before a user or a group is deleted: its rules become rules for nobody. A receiver of pre_delete."""
    name = "user_id" if sender is User else "group_id"
    for rule in Rule.objects.select_for_update().filter(**{name: instance.pk}).order_by("pk"):
        record_first_version(rule)
        record_attributes(rule.pk, RuleChange.UPDATE, attributes_of(rule) | {name: None})


def _append(
    rule_id: int,
    change: RuleChange,
    attributes: Attributes,
    former: RuleVersion | None,
    moment: datetime | None = None,
    is_delegated: bool = False,
) -> None:
    actor = None if change == RuleChange.INITIAL else current_actor()
    RuleVersion.objects.create(
        rule_id=rule_id,
        number=1 if former is None else former.number + 1,
        change=change,
        attributes=attributes,
        changes={} if former is None else differences(former.attributes, attributes),
        author_id=actor.user_id if actor else None,
        author_name=actor.name if actor else "",
        is_delegated=is_delegated,
        **({"created_at": moment} if moment else {}),
    )


def differences(before: Attributes, after: Attributes) -> dict[str, list[Value]]:
    """The attributes that differ, each with its value before and after."""
    return {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}


def _remove_oldest(rule_id: int) -> None:
    """Keep the newest GATEWAY_RULE_VERSIONS versions of a rule."""
    versions = RuleVersion.objects.of(rule_id)
    surplus = versions.values_list("pk", flat=True)[settings.GATEWAY_RULE_VERSIONS :]
    RuleVersion.objects.filter(pk__in=list(surplus)).delete()


def _forget_deleted_rules(group_id: Value) -> None:
    """Keep those that were deleted last: of the admins of a group their own number, so that they displace no others."""
    deleted, most = RuleVersion.objects.of_deleted_rules(), MAX_DELETED
    if group_id is None:
        deleted = deleted.filter(is_delegated=False)
    else:
        deleted, most = deleted.of_group_admins(group_id), MAX_DELETED_OF_GROUP
    surplus = deleted.values_list("rule_id", flat=True)[most:]
    RuleVersion.objects.filter(rule_id__in=list(surplus)).delete()
