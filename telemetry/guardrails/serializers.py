"""Attributes of the counts of guardrails in answers."""

from rest_framework import serializers


def _count() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0)


class GuardrailCountsSerializer(serializers.Serializer):
    """What a guardrail came to; an attribute is null if the counts are not grouped by it."""

    id = serializers.IntegerField()  # its place in the list
    hour = serializers.CharField(allow_null=True, default=None)
    day = serializers.CharField(allow_null=True, default=None)
    guardrail_id = serializers.IntegerField(allow_null=True, default=None)
    guardrail_name = serializers.CharField(allow_null=True, default=None)
    direction = serializers.CharField(allow_null=True, default=None)
    searched = _count()
    passed = _count()
    blocked = _count()
    redacted = _count()
    monitored = _count()
    failed = _count()
    average_ms = serializers.FloatField(allow_null=True)
