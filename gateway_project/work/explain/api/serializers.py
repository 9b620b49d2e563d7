"""Explanations in the OpenAPI document: of a request that is not sent, and of a log entry, in the same form."""

from rest_framework import serializers

from gateway_project.api.fields import CountOrMoney
from gateway_project.json_types import JsonObject
from gateway_project.work.cache.verdict import VERDICTS


class Part(serializers.Serializer[JsonObject]):
    """A part of the document."""


class ExplainedError(Part):
    """The error that the client would get, or has got."""

    code = serializers.IntegerField()
    exception = serializers.CharField()
    message = serializers.CharField()


class ExplainedGroup(Part):
    """A group of the user."""

    id = serializers.IntegerField()
    name = serializers.CharField()


class ExplainedCaller(Part):
    """Whose request it is; without a key it comes with a login or a trusted issuer's token. Null: not recorded."""

    user_id = serializers.IntegerField(allow_null=True)
    user_name = serializers.CharField(allow_blank=True)
    key_id = serializers.IntegerField(allow_null=True)
    key_name = serializers.CharField(allow_null=True)
    groups = ExplainedGroup(many=True)
    may_work = serializers.BooleanField(allow_null=True)


class ExplainedRule(Part):
    """A rule, and why it matched or did not."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    effect = serializers.ChoiceField(("allow", "deny"))
    matched = serializers.BooleanField()
    reason = serializers.CharField()


class ExplainedTarget(Part):
    """A target that is not asked; the model is null where the log does not name it."""

    provider = serializers.CharField()
    model = serializers.CharField(allow_null=True)
    reason = serializers.CharField()


class AskedTarget(ExplainedTarget):
    """A target in the order of asking."""

    position = serializers.IntegerField()


class ExplainedCache(Part):
    """What the cache says."""

    verdict = serializers.ChoiceField(VERDICTS)
    key = serializers.CharField(allow_null=True)
    scope = serializers.CharField(allow_null=True)
    age_seconds = serializers.IntegerField(allow_null=True)


class ExplainedLimit(Part):
    """A limit without the request; null where nothing bounds it, or where it has no window."""

    limit = serializers.CharField()
    name = serializers.CharField(help_text="Measure, kind of subject, its id and the window: cost:user:7:month.")
    amount = CountOrMoney(allow_null=True)
    used = CountOrMoney()
    reserved = CountOrMoney(help_text="The amount that is reserved for requests in flight.")
    remaining = CountOrMoney(allow_null=True)
    resets = serializers.DateTimeField(allow_null=True)


class ExplainedGuardrail(Part):
    """A guardrail and its result, without the matches. A null result waits for an answer, or is not recorded."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    action = serializers.CharField(allow_null=True)
    directions = serializers.ListField(child=serializers.ChoiceField(("request", "response")))
    repairs = serializers.BooleanField(allow_null=True, help_text="Whether the model may be asked once more.")
    result = serializers.CharField(allow_null=True)
    counts = serializers.DictField(child=serializers.IntegerField())


class ExplainedUse(Part):
    """Tokens and cost: estimated before, or used."""

    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = serializers.CharField(allow_null=True)
    currency = serializers.CharField(allow_blank=True)


class OutgoingBody(serializers.Field[object, object, object, JsonObject]):
    """Any JSON."""

    schema: JsonObject = {"description": "The body as JSON, or as text if it is not JSON."}


class ExplainedOutgoing(Part):
    """The request that the first target would get, with masks in place of credentials."""

    url = serializers.CharField()
    headers = serializers.DictField(child=serializers.CharField())
    body = OutgoingBody()


class Explanation(Part):
    """What would happen to a request, and why. Nothing is sent, and no limit counts it."""

    allowed = serializers.BooleanField()
    sentences = serializers.ListField(child=serializers.CharField())
    error = ExplainedError(allow_null=True)
    caller = ExplainedCaller()
    rules = ExplainedRule(many=True)
    other_rules = serializers.IntegerField(help_text="The number of rules that are for other users and are not shown.")
    candidates = AskedTarget(many=True)
    left_out = ExplainedTarget(many=True)
    limits = ExplainedLimit(many=True)
    cache = ExplainedCache()
    guardrails = ExplainedGuardrail(many=True)
    outgoing = ExplainedOutgoing(
        allow_null=True, help_text="Null if no provider is asked, or if the value is not recorded."
    )
    estimate = ExplainedUse()


class EntryExplanation(Explanation):
    """Why a request was served or refused; what the log does not have is null or empty."""


class ExplanationAnswer(Part):
    """The body of the response with `explain=true`."""

    data = Explanation()  # type: ignore[assignment]  # DRF has a property of this name, which a field replaces


class EntryExplanationAnswer(Part):
    """The body of the response."""

    data = EntryExplanation()  # type: ignore[assignment]  # as above
