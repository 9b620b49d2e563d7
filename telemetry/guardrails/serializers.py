"""Attributes of the counts of guardrails in answers."""

from typing import ClassVar

from rest_framework import serializers

from telemetry.guardrails.models import GuardrailSample


def _count() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0)


class GuardrailCountsSerializer(serializers.Serializer):
    """The results of a guardrail; an attribute is null if the counts are not grouped by it."""

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


class Parts(serializers.ListField):
    """The text before the match, the match, and the text after it; null without the key that it was encrypted with."""

    schema: ClassVar = {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3}


class GuardrailSampleSerializer(serializers.ModelSerializer):
    """What a guardrail has matched."""

    time_stamp = serializers.DateTimeField(source="timestamp")
    expiry = serializers.DateTimeField(source="expires_at")
    text = Parts(source="parts", allow_null=True)

    class Meta:
        model = GuardrailSample
        fields = ("id", "time_stamp", "expiry", "correlation_id", "user_id", "direction", "category", "text")
