"""Attributes of versions of rules, and of the request that restores one."""

from rest_framework import serializers

from gateway_project.api.fields import Attributes, Integer
from gateway_project.api.names import camel
from gateway_project.json_types import JsonObject
from rules.models import RuleVersion
from rules.versions.models import RuleChange
from rules.versions.recording import differences


class RuleVersionSerializer(serializers.ModelSerializer):
    """A rule as it was from `timestamp` on, and who changed it how."""

    version = serializers.IntegerField(source="number")
    timestamp = serializers.DateTimeField(source="created_at")
    change = serializers.ChoiceField(choices=RuleChange.values)
    author_id = serializers.IntegerField(allow_null=True)
    rule = serializers.SerializerMethodField()
    changes = serializers.SerializerMethodField()

    class Meta:
        model = RuleVersion
        fields = ("id", "version", "timestamp", "change", "author_id", "author_name", "rule", "changes")

    def get_rule(self, version: RuleVersion) -> JsonObject:
        return {camel(name): value for name, value in version.attributes.items()}

    def get_changes(self, version: RuleVersion) -> list[JsonObject]:
        base: RuleVersion | None = self.context.get("base")
        changes = version.changes if base is None else differences(base.attributes, version.attributes)
        return [
            {"attribute": camel(name), "before": before, "after": after} for name, (before, after) in changes.items()
        ]


class Restoration(Attributes):
    """Which version of a rule becomes its newest one."""

    example = {"version": 1}
    version = Integer(min_value=1)
