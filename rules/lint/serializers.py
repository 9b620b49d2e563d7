"""The problems of the rule book as the management API lists them."""

from rest_framework import serializers

from gateway_project.json_types import JsonObject
from rules.lint.findings import Finding
from rules.lint.fixes import Action
from rules.linter import Problem


class FixSerializer(serializers.Serializer):
    """What the console offers to do about it, and the id of the rule, group, model, key or alias that it is about."""

    action = serializers.ChoiceField(choices=list(Action))
    id = serializers.IntegerField()
    description = serializers.CharField()


class FindingSerializer(serializers.Serializer):
    """A problem; `ruleId` is null for one of a group, key, model or alias."""

    rule_id = serializers.IntegerField(allow_null=True)
    problem = serializers.ChoiceField(choices=list(Problem))
    message = serializers.CharField()
    fix = FixSerializer()


class LintAnswer(serializers.Serializer):
    """All problems of the rule book."""

    data = FindingSerializer(many=True)  # type: ignore[assignment]  # the wire's name; only the schema reads this class


def as_json(finding: Finding) -> JsonObject:
    action, row_id = finding.fix
    fix = {"action": action.value, "id": row_id, "description": f"{action.label}."}
    return {"ruleId": finding.rule_id, "problem": finding.problem.value, "message": finding.message, "fix": fix}
