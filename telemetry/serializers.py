"""Attributes of log entries, cache entries and usage in answers."""

from typing import ClassVar

from rest_framework import serializers

from gateway_project.api.names import camel
from gateway_project.json_types import JsonObject
from providers.health.status import HealthState
from telemetry.attempts import ATTEMPT_FIELDS, LoggedAttempt
from telemetry.models import CacheEntry, EntrySource, EntryType, LogEntry, Outcome

USED = (
    *("input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_hour_tokens", "output_tokens"),
    *("reasoning_tokens", "usage_estimated", "cost", "saved_cost", "currency", "cost_status"),
    *("duration_ms", "first_byte_ms"),
)


class CandidatesField(serializers.JSONField):
    """Name, result and detail of each provider that was considered; null if there was none."""

    schema: ClassVar = {
        "type": "array",
        "items": {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
    }


class LoggedAttemptsField(serializers.Field):
    """Each sending of the request to a provider, in order; null without one, or if the process ended before it."""

    schema: ClassVar = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "providerId": {"type": "integer"},
                "providerName": {"type": "string"},
                "credentialId": {"type": "integer", "description": "The id of the credential; 0: the provider's own."},
                "model": {"type": "string", "description": "The name of the model at this provider."},
                "status": {"type": "integer"},
                "cause": {"type": "string", "description": "Why the attempt failed; empty if the provider answered."},
                "exception": {"type": "string"},
                "beginMs": {"type": "number", "description": "Milliseconds since the request came."},
                "durationMs": {"type": "number"},
                "cost": {"type": ["string", "null"]},
                "currency": {"type": "string"},
                "costStatus": {"type": "string"},
                "stages": {
                    "type": "array",
                    "description": "Name, begin since the request came, and length in ms of each step: "
                    "connect and tls (of a new connection), first_byte, first_token (of a stream), last_token.",
                    "items": {"type": "array", "items": {}, "minItems": 3, "maxItems": 3},
                },
            },
            "required": [camel(name) for name in ATTEMPT_FIELDS],
        },
    }

    def to_representation(self, value: list[list[object]]) -> list[JsonObject]:
        names = [camel(name) for name in ATTEMPT_FIELDS]
        attempts = [LoggedAttempt(*attempt) for attempt in value]  # type: ignore[arg-type]  # the log is JSON
        return [dict(zip(names, attempt, strict=True)) for attempt in attempts]


class LoggedGuardrailsField(serializers.JSONField):
    """Each guardrail that ran, and what it came to, never what it found; null if none did."""

    schema: ClassVar = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "name": {"type": "string"},
                "direction": {"type": "string", "enum": ["request", "response"]},
                "result": {"type": "string", "enum": ["passed", "blocked", "redacted", "monitored", "failed"]},
                "milliseconds": {"type": "number"},
                "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                "action": {
                    "type": "string",
                    "description": "The guardrail's action; entries of older versions do not have it.",
                },
                "repairs": {
                    "type": "boolean",
                    "description": "True if the model could be asked a second time; otherwise absent.",
                },
                "repaired": {
                    "type": "boolean",
                    "description": "Whether the second answer was valid; absent if there was no second answer.",
                },
            },
            "required": ["id", "name", "direction", "result", "milliseconds", "counts"],
        },
    }


class LogEntrySerializer(serializers.ModelSerializer):
    """A log entry."""

    time_stamp = serializers.DateTimeField(source="timestamp")
    candidates = CandidatesField(allow_null=True)
    failed_attempts = serializers.SerializerMethodField()
    provider_calls = LoggedAttemptsField(allow_null=True)
    guardrails = LoggedGuardrailsField(allow_null=True)

    class Meta:
        model = LogEntry
        fields = (
            *("id", "correlation_id", "entry_source", "entry_type", "message", "payload", "time_stamp", "user_id"),
            *("username", "severity", "outcome", "status", "exception", "operation", "stream", "model"),
            *("alias", "served_model", "provider_id"),
            *("provider_name", "key_id", "key_name", "trusted_issuer", "rule_id", "rule_name", "attempts"),
            *(
                "failed_attempts",
                "provider_calls",
                "cache_status",
                *USED,
                "finish_reason",
                "stages",
                "candidates",
                "guardrails",
            ),
            *("tags", "address"),
        )

    def get_failed_attempts(self, entry: LogEntry) -> int:
        return entry.failed_attempts or 0


class ComparedKind(serializers.Serializer[JsonObject]):
    """What requests have to have in common to be compared."""

    entry_type = serializers.ChoiceField(EntryType.choices)
    entry_source = serializers.ChoiceField(EntrySource.choices)
    provider_id = serializers.IntegerField(allow_null=True)
    model = serializers.CharField(allow_blank=True)
    served_model = serializers.CharField(allow_null=True)
    stream = serializers.BooleanField()
    outcome = serializers.ChoiceField(Outcome.choices)


class ComparedStage(serializers.Serializer[JsonObject]):
    """A stage of the request, all visits together, or a step of one of its attempts; null where nothing is usual."""

    stage = serializers.CharField()
    attempt = serializers.IntegerField(allow_null=True, min_value=1, help_text="Null for a stage of the request.")
    milliseconds = serializers.FloatField()
    p50 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)


class StageComparison(serializers.Serializer[JsonObject]):
    """The stages of a request beside those of its kind."""

    kind = ComparedKind()
    entries = serializers.IntegerField(
        allow_null=True,
        min_value=0,
        help_text="The number of requests in the comparison; null if the comparison took too long.",
    )
    stages = ComparedStage(many=True)


class ComparisonAnswer(serializers.Serializer[JsonObject]):
    """The body of the response."""

    data = StageComparison()  # type: ignore[assignment]  # DRF has a property of this name, which a field replaces


class CacheEntrySerializer(serializers.ModelSerializer):
    """A stored response."""

    hash = serializers.CharField(source="request_hash")
    time_stamp = serializers.DateTimeField(source="created_at")
    expiry = serializers.DateTimeField(source="expires_at")
    size = serializers.IntegerField(source="size_bytes")

    class Meta:
        model = CacheEntry
        fields = (
            *("id", "hash", "response", "content_type", "user_id", "username", "time_stamp", "expiry"),
            *("provider_id", "provider_name", "model", "served_model", "size", "hits", "last_hit_at"),
        )


class CostSerializer(serializers.Serializer):
    """The cost in one currency, and the cost that cached answers have saved."""

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


class ProviderState(serializers.CharField):
    """How the provider is now; null if usage is not grouped by it, or if it was deleted."""

    schema: ClassVar = {"type": "string", "enum": [state.value for state in HealthState]}


class UsageSerializer(serializers.Serializer):
    """The usage of one combination. An attribute is null if usage is not grouped by it, or if the requests had none."""

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
    health = ProviderState(allow_null=True, default=None)
    model = _name()
    alias = _name()
    tag = _name()
    requests = _count()
    completed = _count()
    denied = _count()
    client_closed = _count()
    errors = _count()  # type: ignore[assignment]  # the wire's name; the rows are never validated
    cache_hits = _count()
    attempts = _count()
    failed_attempts = _count()
    input_tokens = _count()
    cache_read_tokens = _count()
    cache_write_tokens = _count()
    output_tokens = _count()
    reasoning_tokens = _count()
    saved_tokens = _count()
    estimated_requests = _count()
    costs = CostSerializer(many=True)
    unknown_cost_requests = _count()
    unpriced_requests = _count()
    average_ms = _milliseconds()
    p50_ms = _milliseconds()
    p95_ms = _milliseconds()
    average_first_byte_ms = _milliseconds()


class UnpricedSerializer(serializers.Serializer):
    """A model that was used without a price."""

    id = serializers.IntegerField()  # its place in the list
    provider_id = serializers.IntegerField()
    provider_name = _name()
    model = serializers.CharField()
    requests = _count()
    unknown_cost_requests = _count()
    input_tokens = _count()
    output_tokens = _count()
    last_hour = serializers.DateTimeField()
