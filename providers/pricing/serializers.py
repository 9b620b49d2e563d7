"""Attributes of prices: in answers, and in requests that create or change them."""

import re
from decimal import Decimal
from typing import Any

from django.db.models import DecimalField
from django.utils import timezone
from rest_framework import serializers

from gateway_project.api.fields import Attributes, DateTime, Id, Integer, Text
from providers.formats.usage import MONEY_DECIMALS
from providers.models import AMOUNTS, ModelPrice, Provider

MOST_DIGITS = 12


class Money(serializers.Field):
    """An amount of money: a number, or a text with a number, which is never rounded."""

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
    """A price. Amounts are texts."""

    provider_id = serializers.IntegerField(allow_null=True)
    provider_name = serializers.SerializerMethodField()
    input = Money()
    output = Money()
    cache_read = Money(allow_null=True)
    cache_write = Money(allow_null=True)
    cache_write_hour = Money(allow_null=True)
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
    """The id of a provider; its value is the row."""

    schema = Id.schema

    def to_internal_value(self, data: object) -> Provider:
        provider_id = Id().to_internal_value(data)
        row = Provider.objects.filter(pk=provider_id).first()
        if row is None:
            raise serializers.ValidationError(f"There is no provider with the id {provider_id}.")
        return row


def _amount(name: str, **options: Any) -> Money:
    """An amount that fits the column with this name."""
    column = ModelPrice._meta.get_field(name)
    if not isinstance(column, DecimalField):
        raise TypeError(f"The column {name} holds no amount.")
    return Money(whole=column.max_digits - column.decimal_places, decimals=column.decimal_places, **options)


class PriceChanges(Attributes):
    """The attributes of a price that can be changed. A change creates a new row."""

    currency = Text(max_length=3)
    input = _amount("input")
    output = _amount("output")
    cache_read = _amount("cache_read", required=False, allow_null=True)
    cache_write = _amount("cache_write", required=False, allow_null=True)
    cache_write_hour = _amount("cache_write_hour", required=False, allow_null=True)
    reasoning = _amount("reasoning", required=False, allow_null=True)
    # A digit less than the column has: SQLite keeps fifteen, and rounds more nines up to a number that does not fit.
    request = Money(whole=5, decimals=MONEY_DECIMALS, required=False)
    valid_from = DateTime(required=False)


class PriceAttributes(PriceChanges):
    """The attributes of a new price: for a provider, for a host, or for all."""

    provider_id = ProviderId(source="provider", required=False, allow_null=True)
    host = Text(required=False, allow_blank=True, max_length=ModelPrice._meta.get_field("host").max_length)
    model = Text(max_length=ModelPrice._meta.get_field("model").max_length)
    above_input_tokens = Integer(required=False, min_value=0)
