"""The rules of an earlier moment."""

from datetime import datetime

from django.db.models import Exists, OuterRef

from rules.models import Everyone, Rule, RuleVersion


def rules_at(moment: datetime) -> list[Rule]:
    """The rules as they were, disabled ones too, by id; none of them is to be stored.

    What happened before the oldest version of a rule that is kept is unknown: until then it is not among them.
    """
    versions = RuleVersion.objects.at(moment).exclude(change="delete")
    unversioned = Rule.objects.exclude(Exists(RuleVersion.objects.filter(rule_id=OuterRef("pk"))))
    rules = [rule_of(version) for version in versions]
    return sorted([*rules, *unversioned.filter(updated_at__lte=moment)], key=lambda rule: rule.pk)


def rule_of(version: RuleVersion) -> Rule:
    """The rule of a version, which is not to be stored."""
    values = dict(version.attributes)
    everyone = Everyone.USER if values["user_id"] == 0 else Everyone.GROUP if values["group_id"] == 0 else Everyone.NOT
    values |= {name: values[name] or None for name in ("user_id", "group_id")}
    return Rule(pk=version.rule_id, everyone=everyone, **values)
