"""What providers, models and formats look like on the wire, and what may be sent about them."""

import re
from decimal import Decimal
from typing import Any

from django.db.models import DecimalField
from django.utils import timezone
from rest_framework import serializers

from gateway_project.api.fields import Attributes, Boolean, Choice, DateTime, Id, Integer, Named, Text
from gateway_project.json_types import JsonObject
from providers.formats.usage import MONEY_DECIMALS
from providers.models import (
    AMOUNTS,
    LEAST_SECONDS,
    LONGEST_CREDENTIAL,
    LONGEST_TIMEOUT,
    MAX_INTEGER,
    MOST_MODELS,
    OPTIONS,
    AuthMethod,
    CacheScope,
    Model,
    ModelPrice,
    Provider,
    ProviderFormat,
    UnknownParameters,
)

MOST_DIGITS = 12


class ProviderSerializer(serializers.ModelSerializer):
    """A provider as lists show it: of its credential only the mask."""

    api_key = serializers.CharField(source="masked_credential")
    models = Named(many=True)
    format_name = serializers.CharField(source="format.name")

    class Meta:
        model = Provider
        fields = ("id", "name", "url", "auth_method", "api_key", "models", "format_name", *OPTIONS)


class Seconds(serializers.Field):
    """A time-out: a number of seconds, a day at most; null leaves it to the setting."""

    schema = {"type": "number", "minimum": LEAST_SECONDS, "maximum": LONGEST_TIMEOUT}

    def to_internal_value(self, data: object) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float) or not LEAST_SECONDS <= data <= LONGEST_TIMEOUT:
            raise serializers.ValidationError(f"Must be a number of seconds from {LEAST_SECONDS} to {LONGEST_TIMEOUT}.")
        return float(data)


class FormatId(serializers.Field):
    """The id of a format; the value is the format's name, by which services know it."""

    schema = Id.schema

    def to_internal_value(self, data: object) -> str:
        format_id = Id().to_internal_value(data)
        row = ProviderFormat.objects.filter(pk=format_id).first()
        if row is None:
            raise serializers.ValidationError(f"There is no format with the id {format_id}.")
        return row.name


def _timeout() -> Seconds:
    return Seconds(required=False, allow_null=True, help_text="null: the default setting applies.")


class ProviderChanges(Attributes):
    """What may be changed about a provider, under the names that services know it by."""

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
        help_text="The provider's credential. Sending back the mask that is shown changes nothing.",
    )
    format_id = FormatId(source="format_name")
    enabled = Boolean(required=False)
    priority = Integer(required=False, min_value=0, max_value=MAX_INTEGER, help_text="Lower is tried first.")
    weight = Integer(
        required=False, min_value=1, max_value=MAX_INTEGER, help_text="Share of the work within a priority."
    )
    cache_scope = Choice(
        CacheScope.values, required=False, help_text="Who shares cached answers; empty: the default setting applies."
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
        help_text="What becomes of those that the format does not know; of a new provider pass, or drop where those of "
        "the format refuse what they do not know.",
    )


class ProviderAttributes(ProviderChanges):
    """What may be sent about a new provider. An id is accepted, as the specification has it, and means nothing."""

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


class ModelSerializer(Named):
    """A model as lists show it."""

    max_output_tokens = serializers.IntegerField(allow_null=True)


class ModelAttributes(Attributes):
    """What may be sent about a model."""

    example = {"name": "gpt-5-nano"}
    name = Text(max_length=Model._meta.get_field("name").max_length)
    max_output_tokens = Integer(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_INTEGER,
        help_text="How long answers can be, for formats that have to say it; only an admin sets it.",
    )


class FormatSerializer(Named):
    """A format as lists show it."""


class Money(serializers.Field):
    """An amount of money: a number, or a text with one, which no reader rounds."""

    def __init__(self, *, whole: int = MOST_DIGITS, decimals: int = MOST_DIGITS, **options: Any) -> None:
        super().__init__(**options)
        self.whole, self.decimals = whole, decimals
        pattern = rf"[0-9]{{1,{whole}}}(\.[0-9]{{1,{decimals}}})?([eE]-[0-9]{{1,2}})?"
        self.form = re.compile(rf"{pattern}\Z")
        self.schema = {"type": ["string", "number"], "minimum": 0, "pattern": f"^{pattern}$"}

    def to_internal_value(self, data: object) -> Decimal:
        text = str(data) if isinstance(data, int | float | str) and not isinstance(data, bool) else ""
        if not self.form.match(text) or (amount := Decimal(text)) != round(amount, self.decimals):
            digits = f"{self.whole} digits before the point and {self.decimals} behind it"
            raise serializers.ValidationError(f"Must be an amount from 0, with at most {digits}.")
        return amount

    def to_representation(self, value: Decimal) -> str:
        return f"{value.normalize():f}"


class PriceSerializer(serializers.ModelSerializer):
    """A price as lists show it; amounts are texts."""

    provider_id = serializers.IntegerField(allow_null=True)
    provider_name = serializers.SerializerMethodField()
    input = Money()
    output = Money()
    cache_read = Money(allow_null=True)
    cache_write = Money(allow_null=True)
    reasoning = Money(allow_null=True)
    request = Money()
    current = serializers.SerializerMethodField()

    class Meta:
        model = ModelPrice
        fields = (
            *("id", "provider_id", "provider_name", "host", "model", "above_input_tokens", "currency"),
            *(*AMOUNTS, "valid_from", "valid_until", "current", "source"),
        )

    def get_provider_name(self, price: ModelPrice) -> str | None:
        return price.provider.name if price.provider else None

    def get_current(self, price: ModelPrice) -> bool:
        return price.holds(timezone.now())


class ProviderId(serializers.Field):
    """The id of a provider; the value is its row."""

    schema = Id.schema

    def to_internal_value(self, data: object) -> Provider:
        provider_id = Id().to_internal_value(data)
        row = Provider.objects.filter(pk=provider_id).first()
        if row is None:
            raise serializers.ValidationError(f"There is no provider with the id {provider_id}.")
        return row


def _amount(name: str, **options: Any) -> Money:
    """An amount that fits the column of this name."""
    column = ModelPrice._meta.get_field(name)
    if not isinstance(column, DecimalField):
        raise TypeError(f"The column {name} holds no amount.")
    return Money(whole=column.max_digits - column.decimal_places, decimals=column.decimal_places, **options)


class PriceChanges(Attributes):
    """What may be changed about a price; the change is a row of its own."""

    currency = Text(max_length=3)
    input = _amount("input")
    output = _amount("output")
    cache_read = _amount("cache_read", required=False, allow_null=True)
    cache_write = _amount("cache_write", required=False, allow_null=True)
    reasoning = _amount("reasoning", required=False, allow_null=True)
    # A digit less than the column has: SQLite keeps fifteen, and rounds more nines up to a number that does not fit.
    request = Money(whole=5, decimals=MONEY_DECIMALS, required=False)
    valid_from = DateTime(required=False)


class PriceAttributes(PriceChanges):
    """What may be sent about a new price: for a provider, for a host, or for every one."""

    provider_id = ProviderId(source="provider", required=False, allow_null=True)
    host = Text(required=False, allow_blank=True, max_length=ModelPrice._meta.get_field("host").max_length)
    model = Text(max_length=ModelPrice._meta.get_field("model").max_length)
    above_input_tokens = Integer(required=False, min_value=0)
