"""What log and cache entries look like on the wire."""

from typing import ClassVar

from rest_framework import serializers

from telemetry.models import CacheEntry, LogEntry

USED = (
    *("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
    *("usage_estimated", "cost", "saved_cost", "currency", "cost_status", "duration_ms", "first_byte_ms"),
)


class CandidatesField(serializers.JSONField):
    """Name, result and detail of each provider that was considered; null where none was."""

    schema: ClassVar = {
        "type": "array",
        "items": {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
    }


class LogEntrySerializer(serializers.ModelSerializer):
    """A log entry as lists show it."""

    time_stamp = serializers.DateTimeField(source="timestamp")
    candidates = CandidatesField(allow_null=True)

    class Meta:
        model = LogEntry
        fields = (
            *("id", "correlation_id", "entry_source", "entry_type", "message", "payload", "time_stamp", "user_id"),
            *("username", "severity", "outcome", "status", "exception", "operation", "stream", "model", "provider_id"),
            *("provider_name", "key_id", "key_name", "rule_id", "rule_name", "attempts", "cache_status", *USED),
            *("finish_reason", "stages", "candidates", "tags", "address"),
        )


class CacheEntrySerializer(serializers.ModelSerializer):
    """A stored response as lists show it."""

    hash = serializers.CharField(source="request_hash")
    time_stamp = serializers.DateTimeField(source="created_at")
    expiry = serializers.DateTimeField(source="expires_at")
    size = serializers.IntegerField(source="size_bytes")

    class Meta:
        model = CacheEntry
        fields = (
            *("id", "hash", "response", "content_type", "user_id", "username", "time_stamp", "expiry"),
            *("provider_id", "provider_name", "model", "size", "hits", "last_hit_at"),
        )


class CostSerializer(serializers.Serializer):
    """What was spent in one currency, and what stored answers would have cost."""

    currency = serializers.CharField()
    known = serializers.CharField()
    estimated = serializers.CharField()
    saved = serializers.CharField()


def _count() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0)


def _id() -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, default=None)


def _name() -> serializers.CharField:
    return serializers.CharField(allow_null=True, default=None)


def _milliseconds() -> serializers.FloatField:
    return serializers.FloatField(allow_null=True)


class UsageSerializer(serializers.Serializer):
    """What was used of one thing; null is what it was not added up by, or a request had none of."""

    id = serializers.IntegerField()  # its place in the list
    hour = _name()
    day = _name()
    user_id = _id()
    user_name = _name()
    group_id = _id()
    group_name = _name()
    key_id = _id()
    key_name = _name()
    provider_id = _id()
    provider_name = _name()
    model = _name()
    tag = _name()
    requests = _count()
    completed = _count()
    denied = _count()
    client_closed = _count()
    errors = _count()  # type: ignore[assignment]  # the wire's name; the rows are never validated
    cache_hits = _count()
    input_tokens = _count()
    cache_read_tokens = _count()
    cache_write_tokens = _count()
    output_tokens = _count()
    reasoning_tokens = _count()
    saved_tokens = _count()
    estimated_requests = _count()
    costs = CostSerializer(many=True)
    unknown_cost_requests = _count()
    average_ms = _milliseconds()
    p50_ms = _milliseconds()
    p95_ms = _milliseconds()
    average_first_byte_ms = _milliseconds()


class UnpricedSerializer(serializers.Serializer):
    """A model that was used and has no price."""

    id = serializers.IntegerField()  # its place in the list
    provider_id = serializers.IntegerField()
    provider_name = _name()
    model = serializers.CharField()
    requests = _count()
    unknown_cost_requests = _count()
    input_tokens = _count()
    output_tokens = _count()
    last_hour = serializers.DateTimeField()
