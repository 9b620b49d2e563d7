"""The explanation of a log entry in the OpenAPI document."""

from rest_framework import serializers

from gateway_project.json_types import JsonObject
from gateway_project.work.explain.estimate import VERDICTS


class Part(serializers.Serializer[JsonObject]):
    """A part of the document."""


class ExplainedError(Part):
    """How the request ended, if not well."""

    code = serializers.IntegerField()
    exception = serializers.CharField()
    message = serializers.CharField()


class ExplainedGroup(Part):
    """A group of the user at that moment."""

    id = serializers.IntegerField()
    name = serializers.CharField()


class ExplainedCaller(Part):
    """Whose request it was; without a key it came with a login or a trusted issuer's token."""

    user_id = serializers.IntegerField(allow_null=True)
    user_name = serializers.CharField(allow_blank=True)
    key_id = serializers.IntegerField(allow_null=True)
    key_name = serializers.CharField(allow_null=True)
    groups = ExplainedGroup(many=True)
    may_work = serializers.BooleanField(allow_null=True)


class ExplainedRule(Part):
    """A rule as it was, and why it matched or did not."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    effect = serializers.ChoiceField(("allow", "deny"))
    matched = serializers.BooleanField()
    reason = serializers.CharField()


class ExplainedTarget(Part):
    """A provider that was left out; the model is null where the log does not name it."""

    provider = serializers.CharField()
    model = serializers.CharField(allow_null=True)
    reason = serializers.CharField()


class AskedTarget(ExplainedTarget):
    """A provider that was asked."""

    position = serializers.IntegerField()


class ExplainedCache(Part):
    """What the cache said."""

    verdict = serializers.ChoiceField(VERDICTS)
    key = serializers.CharField(allow_null=True)
    scope = serializers.CharField(allow_null=True)
    age_seconds = serializers.IntegerField(allow_null=True)


class ExplainedUse(Part):
    """What the request used."""

    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = serializers.CharField(allow_null=True)
    currency = serializers.CharField(allow_blank=True)


class EntryExplanation(Part):
    """Why a request was served or refused; what the log does not have is null or empty."""

    allowed = serializers.BooleanField()
    sentences = serializers.ListField(child=serializers.CharField())
    error = ExplainedError(allow_null=True)
    caller = ExplainedCaller()
    rules = ExplainedRule(many=True)
    other_rules = serializers.IntegerField(help_text="The number of rules that are for others.")
    candidates = AskedTarget(many=True)
    left_out = ExplainedTarget(many=True)
    limits = serializers.ListField(child=serializers.DictField())
    cache = ExplainedCache()
    guardrails = serializers.ListField(child=serializers.DictField())
    outgoing = serializers.DictField(allow_null=True)
    estimate = ExplainedUse()


class EntryExplanationAnswer(Part):
    """The body of the response."""

    data = EntryExplanation()  # type: ignore[assignment]  # DRF has a property of this name, which a field replaces
