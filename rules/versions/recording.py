"""Writes a version for each change of a rule, in the transaction that makes the change."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeAlias

from django.conf import settings
from django.db.models import Exists, OuterRef

from accounts.models import Group, User
from gateway_project.api.audit import current_actor
from rules.models import Everyone, Rule, RuleVersion
from rules.versions.models import RuleChange
from rules.versions.querysets import RuleVersionQuerySet

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


def record_first_versions(rules: Collection[Rule]) -> None:
    """Write the stored rules, which are about to change, as versions, where they have none yet."""
    rule_ids = set(_versions_of(rules).values_list("rule_id", flat=True))
    RuleVersion.objects.bulk_create(_first_version(rule) for rule in rules if rule.pk not in rule_ids)


def record_version(rule: Rule, change: RuleChange) -> None:
    """Write the rule as it is now as its newest version; an update that changes nothing writes none."""
    record_attributes(rule.pk, change, attributes_of(rule), is_delegated=rule.is_delegated)


def record_new_positions(rules: Collection[Rule]) -> None:
    """Write rules that only got other positions as their newest versions; each has a version already.

    The number of queries does not depend on that of the rules.
    """
    former = {version.rule_id: version for version in _versions_of(rules).newest()}
    RuleVersion.objects.bulk_create(
        _version(rule.pk, RuleChange.UPDATE, attributes_of(rule), former[rule.pk]) for rule in rules
    )
    _remove_oldest(_versions_of(rules))


def record_attributes(rule_id: int, change: RuleChange, attributes: Attributes, *, is_delegated: bool = False) -> None:
    """The same for a rule with these attributes."""
    former = RuleVersion.objects.of(rule_id).first()
    if change == RuleChange.UPDATE and former is not None and former.attributes == attributes:
        return
    _version(rule_id, change, attributes, former, is_delegated=is_delegated).save()
    _remove_oldest(RuleVersion.objects.of(rule_id))
    if change == RuleChange.DELETE:
        _forget_deleted_rules(attributes["group_id"] if is_delegated else None)


def record_loss_of_audience(sender: type[User] | type[Group], instance: User | Group, **signal: object) -> None:
    """Before a user or a group is deleted: its rules become rules for nobody. A receiver of pre_delete."""
    name = "user_id" if sender is User else "group_id"
    for rule in Rule.objects.select_for_update().filter(**{name: instance.pk}).order_by("pk"):
        record_first_versions([rule])
        record_attributes(rule.pk, RuleChange.UPDATE, attributes_of(rule) | {name: None})


def _versions_of(rules: Collection[Rule]) -> RuleVersionQuerySet[RuleVersion]:
    return RuleVersion.objects.filter(rule_id__in=[rule.pk for rule in rules])


def _first_version(rule: Rule) -> RuleVersion:
    return _version(rule.pk, RuleChange.INITIAL, attributes_of(rule), None, created_at=rule.updated_at)


def _version(
    rule_id: int, change: RuleChange, attributes: Attributes, former: RuleVersion | None, **fields: datetime | bool
) -> RuleVersion:
    actor = None if change == RuleChange.INITIAL else current_actor()
    return RuleVersion(
        rule_id=rule_id,
        number=1 if former is None else former.number + 1,
        change=change,
        attributes=attributes,
        changes={} if former is None else differences(former.attributes, attributes),
        author_id=actor.user_id if actor else None,
        author_name=actor.name if actor else "",
        **fields,
    )


def differences(before: Attributes, after: Attributes) -> dict[str, list[Value]]:
    """The attributes that differ, each with its value before and after."""
    return {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}


def _remove_oldest(versions: RuleVersionQuerySet[RuleVersion]) -> None:
    """Keep the newest GATEWAY_RULE_VERSIONS of each rule. Its numbers have no gaps."""
    later = OuterRef("number") + settings.GATEWAY_RULE_VERSIONS
    surplus = versions.filter(Exists(RuleVersion.objects.filter(rule_id=OuterRef("rule_id"), number=later)))
    RuleVersion.objects.filter(pk__in=list(surplus.values_list("pk", flat=True))).delete()


def _forget_deleted_rules(group_id: Value) -> None:
    """Keep those that were deleted last: of the admins of a group their own number, so that they displace no others."""
    deleted, most = RuleVersion.objects.of_deleted_rules(), MAX_DELETED
    if group_id is None:
        deleted = deleted.filter(is_delegated=False)
    else:
        deleted, most = deleted.of_group_admins(group_id), MAX_DELETED_OF_GROUP
    surplus = deleted.values_list("rule_id", flat=True)[most:]
    RuleVersion.objects.filter(rule_id__in=list(surplus)).delete()
