"""Attributes of providers, models and formats: in answers, and in requests that create or change them."""

from rest_framework import serializers

from gateway_project.api.fields import Attributes, Boolean, Choice, Id, Integer, Named, Text
from gateway_project.api.names import camel
from gateway_project.json_types import JsonObject
from providers.columns import (
    LEAST_CHECK_SECONDS,
    LEAST_SECONDS,
    LONGEST_CHECK_SECONDS,
    LONGEST_CREDENTIAL,
    LONGEST_TIMEOUT,
    MAX_INTEGER,
    Modality,
)
from providers.health.status import Health, HealthState
from providers.models import (
    MOST_MODELS,
    OPTIONS,
    AuthMethod,
    CacheScope,
    Model,
    Provider,
    ProviderCredential,
    ProviderFormat,
    UnknownParameters,
)


class HealthWord(serializers.Field):
    """The health of a provider or of one of its models in one word."""

    schema = {"type": "string", "enum": [state.value for state in HealthState]}

    def to_representation(self, value: Health | HealthState) -> str:
        return (value.state if isinstance(value, Health) else value).value


class NestedSerializer(serializers.Serializer):
    """An object inside of a row, with the names of the wire: renderers only know a row's own."""

    def to_representation(self, instance: object) -> JsonObject:
        return {camel(name): value for name, value in super().to_representation(instance).items()}


class LastErrorSerializer(NestedSerializer):
    """The last failure."""

    time = serializers.DateTimeField(source="at")
    model = serializers.CharField()
    exception = serializers.CharField()
    message = serializers.CharField()


class ModelHealthSerializer(NestedSerializer):
    """A model of a provider: attempts and checks since the gateway started."""

    model = serializers.CharField()
    health = HealthWord(source="state")
    attempts = serializers.IntegerField()
    failures = serializers.IntegerField()
    checks = serializers.IntegerField()
    failed_checks = serializers.IntegerField()
    last_error = LastErrorSerializer(allow_null=True)


class HealthDetail(NestedSerializer):
    """Why a provider has its health, as the processes of this machine see it; null for all but admins."""

    attempts = serializers.IntegerField()
    failures = serializers.IntegerField()
    last_error = LastErrorSerializer(allow_null=True)
    processes = serializers.IntegerField(help_text="The number of processes that know the provider.")
    open_circuits = serializers.IntegerField(help_text="The number of processes in which its circuit is open.")
    rests_until = serializers.DateTimeField(
        allow_null=True, help_text="Until when the provider gets no requests, because it sent Retry-After."
    )
    models = ModelHealthSerializer(many=True)

    def get_attribute(self, instance: Provider) -> Health | None:
        if not hasattr(instance, "health_detail"):
            raise serializers.SkipField
        return instance.health_detail


class ProviderSerializer(serializers.ModelSerializer):
    """A provider. `apiKey` is the mask of its credential."""

    api_key = serializers.CharField(source="masked_credential")
    models = Named(many=True)
    format_name = serializers.CharField(source="format.name")

    # Lists alone have them: a change of a provider is logged without them.
    health = HealthWord(read_only=True)
    health_detail = HealthDetail(read_only=True, allow_null=True)

    class Meta:
        model = Provider
        fields = (
            *("id", "name", "url", "auth_method", "api_key", "models", "format_name", *OPTIONS),
            *("health", "health_detail"),
        )


class Seconds(serializers.Field):
    """A time-out in seconds, at most a day; null: the default setting applies."""

    schema = {"type": "number", "minimum": LEAST_SECONDS, "maximum": LONGEST_TIMEOUT}

    def to_internal_value(self, data: object) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float) or not LEAST_SECONDS <= data <= LONGEST_TIMEOUT:
            raise serializers.ValidationError(f"Must be a number of seconds from {LEAST_SECONDS} to {LONGEST_TIMEOUT}.")
        return float(data)


class CheckInterval(Integer):
    """The seconds between two checks; 0 for none."""

    schema = {
        "type": "integer",
        "anyOf": [{"const": 0}, {"minimum": LEAST_CHECK_SECONDS, "maximum": LONGEST_CHECK_SECONDS}],
    }

    def to_internal_value(self, data: object) -> int:
        seconds = super().to_internal_value(data)
        if seconds and not LEAST_CHECK_SECONDS <= seconds <= LONGEST_CHECK_SECONDS:
            bounds = f"from {LEAST_CHECK_SECONDS} to {LONGEST_CHECK_SECONDS}"
            raise serializers.ValidationError(f"Must be 0, or a number of seconds {bounds}.")
        return seconds


class FormatId(serializers.Field):
    """The id of a format; its value is the format's name."""

    schema = Id.schema

    def to_internal_value(self, data: object) -> str:
        format_id = Id().to_internal_value(data)
        row = ProviderFormat.objects.filter(pk=format_id).first()
        if row is None:
            raise serializers.ValidationError(f"No format with id {format_id}.")
        return row.name


def _timeout() -> Seconds:
    return Seconds(required=False, allow_null=True, help_text="null: the default setting applies.")


class ProviderChanges(Attributes):
    """The attributes of a provider that can be changed."""

    example = {"priority": 50, "firstByteTimeoutSeconds": 30}
    name = Text(max_length=Provider._meta.get_field("name").max_length)
    url = Text(
        max_length=Provider._meta.get_field("url").max_length,
        help_text="The base URL, to which the format adds paths. Changing its host clears the credential.",
    )
    auth_method = Choice(AuthMethod.values, required=False)
    api_key = Text(
        source="credential",
        required=False,
        allow_blank=True,
        max_length=LONGEST_CREDENTIAL,
        help_text="The provider's credential. Sending the mask back changes nothing.",
    )
    format_id = FormatId(source="format_name")
    enabled = Boolean(required=False)
    priority = Integer(required=False, min_value=0, max_value=MAX_INTEGER, help_text="Lower is tried first.")
    weight = Integer(
        required=False,
        min_value=1,
        max_value=MAX_INTEGER,
        help_text="Share of the requests among providers with the same priority.",
    )
    cache_scope = Choice(
        CacheScope.values, required=False, help_text="Who shares cached answers; empty: as the default setting says."
    )
    cache_ttl_seconds = Integer(required=False, allow_null=True, min_value=0, max_value=MAX_INTEGER)
    connect_timeout_seconds = _timeout()
    first_byte_timeout_seconds = _timeout()
    idle_timeout_seconds = _timeout()
    total_timeout_seconds = _timeout()
    max_response_bytes = Integer(required=False, allow_null=True, min_value=1)
    unknown_parameters = Choice(
        UnknownParameters.values,
        required=False,
        help_text="What happens to parameters that the format does not know. Default of a new provider: drop if "
        "providers of this format refuse unknown parameters, otherwise pass.",
    )
    health_check_seconds = CheckInterval(
        required=False,
        help_text="Seconds between checks of a failing provider. A check is a tiny request that costs "
        "a token. 0: never.",
    )
    health_check_always = Boolean(required=False, help_text="Whether the provider is also checked while it works.")


class ProviderAttributes(ProviderChanges):
    """The attributes of a new provider. An `id` is accepted and ignored."""

    example = {
        "name": "openai",
        "url": "https://api.openai.com/v1",
        "formatId": 1,
        "authMethod": "bearer",
        "apiKey": "sk-example",
        "models": ["gpt-5", "gpt-5-mini"],
    }
    id = Id(required=False, write_only=True)
    models = serializers.ListField(
        child=Text(max_length=Model._meta.get_field("name").max_length), required=False, max_length=MOST_MODELS
    )

    def validate(self, attrs: JsonObject) -> JsonObject:
        attrs.pop("id", None)
        return attrs


def _effective_modalities(name: str) -> serializers.ListField:
    """Modalities, as they were set or are known."""
    return serializers.ListField(source=f"facts.{name}", child=serializers.CharField())


class ModelSerializer(Named):
    """A model of a provider. What was not set is what the public table says; null or empty if it says nothing."""

    upstream_name = serializers.CharField(source="name_at_provider")
    context_length = serializers.IntegerField(source="facts.context_length", allow_null=True)
    max_output_tokens = serializers.IntegerField(source="facts.max_output_tokens", allow_null=True)
    input_modalities = _effective_modalities("input_modalities")
    output_modalities = _effective_modalities("output_modalities")


def _modalities() -> serializers.ListField:
    return serializers.ListField(
        child=Choice(Modality.values),
        required=False,
        allow_null=True,
        max_length=len(Modality.values),
        help_text="null: as the public table says. Needs the permission providers.modify.",
    )


class ModelAttributes(Attributes):
    """The attributes of a model that can be set."""

    example = {"name": "fast", "upstreamName": "gpt-5-nano"}
    name = Text(max_length=Model._meta.get_field("name").max_length)
    upstream_name = Text(
        required=False,
        allow_blank=True,
        max_length=Model._meta.get_field("upstream_name").max_length,
        help_text="The model name in requests to the provider; empty: the name. Needs the permission providers.modify.",
    )
    context_length = Integer(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_INTEGER,
        help_text="Most tokens of a request and its answer together; null: as the public table says. Needs the "
        "permission providers.modify.",
    )
    input_modalities = _modalities()
    output_modalities = _modalities()
    max_output_tokens = Integer(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_INTEGER,
        help_text="Most tokens of an answer, for formats that require a maximum; null: as the public table says. Only "
        "an admin can set it.",
    )


class CredentialSerializer(Named):
    """One more credential of a provider. `apiKey` is its mask, empty once a new address of the provider cleared it."""

    api_key = serializers.CharField(source="masked_credential")
    weight = serializers.IntegerField()
    enabled = serializers.BooleanField()
    requests_per_minute = serializers.IntegerField(allow_null=True)
    tokens_per_minute = serializers.IntegerField(allow_null=True)
    concurrent_requests = serializers.IntegerField(allow_null=True)


def _upstream_limit() -> Integer:
    return Integer(required=False, allow_null=True, min_value=1, max_value=MAX_INTEGER, help_text="null: no limit.")


class CredentialAttributes(Attributes):
    """The attributes of a credential that can be set."""

    example = {"name": "second account", "apiKey": "sk-example-2", "weight": 1}
    name = Text(max_length=ProviderCredential._meta.get_field("name").max_length)
    api_key = Text(
        source="credential",
        allow_blank=True,
        max_length=LONGEST_CREDENTIAL,
        help_text="The credential. It is sent in the same way as the provider's own. Sending the mask back changes "
        "nothing.",
    )
    weight = Integer(
        required=False,
        min_value=1,
        max_value=MAX_INTEGER,
        help_text="Share of the provider's requests. The provider's own credential has weight 1.",
    )
    enabled = Boolean(required=False)
    requests_per_minute = _upstream_limit()
    tokens_per_minute = _upstream_limit()
    concurrent_requests = _upstream_limit()


class FormatSerializer(Named):
    """A wire format."""
