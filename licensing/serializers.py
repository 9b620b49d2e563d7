"""Attributes of the licence, of active uses and of limits: in answers and in requests."""

from datetime import datetime
from decimal import Decimal
from typing import Generic, TypeVar

from django.db.models import Model, QuerySet
from rest_framework import serializers

from accounts.models import Group, User
from gateway_project.api.documents import with_camel_names
from gateway_project.api.fields import Attributes, Boolean, Choice, Id, Text
from gateway_project.api.names import camel
from gateway_project.database.saving import rows_by_id
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from licensing.models import SUBJECTS, Limit, Measure, Unpriced, Window
from licensing.signing import MAX_SENT_LENGTH
from licensing.status import LimitStatus
from licensing.terms import Terms
from providers.models import Provider
from providers.pricing.serializers import Money


class LicenceAttributes(Attributes):
    """A licence key; blanks around it are removed."""

    licence_key = Text(trim_whitespace=True, max_length=MAX_SENT_LENGTH)


class LicenceStatus(serializers.Serializer):
    """The status of the licence."""

    has_key = serializers.BooleanField()
    type = serializers.CharField()
    valid = serializers.BooleanField()
    expiry = serializers.DateField(allow_null=True)
    expires_in = serializers.IntegerField(allow_null=True)
    max_active_uses = serializers.IntegerField()
    active_use_life_time = serializers.IntegerField()


class LicenceData(serializers.Serializer):
    """The status in its envelope."""

    attributes = LicenceStatus()


class LicenceAnswer(serializers.Serializer):
    """The licence status in its document."""

    data = LicenceData()  # type: ignore[assignment]  # the wire's name; only the schema reads this class


class DayPeak(serializers.Serializer):
    """The highest number of uses on one day."""

    date = serializers.DateField()
    peak_use = serializers.IntegerField()


class Stats(serializers.Serializer):
    """Statistics of active uses."""

    current_uses = serializers.IntegerField()
    peak_daily_uses = DayPeak(many=True)


class StatsData(serializers.Serializer):
    """The statistics under their name."""

    stats = Stats()


class StatsAnswer(serializers.Serializer):
    """The statistics in their document."""

    data = StatsData()  # type: ignore[assignment]  # the wire's name; only the schema reads this class


def status_document(terms: Terms, now: float) -> JsonObject:
    """The status of the licence at this time (seconds since 1970)."""
    status = {
        "has_key": terms.has_key,
        "type": terms.type,
        "valid": not terms.problem(now),
        "expiry": terms.expiry,
        "expires_in": terms.expires_in(now),
        "max_active_uses": terms.max_active_uses,
        "active_use_life_time": terms.active_use_life_time,
    }
    return with_camel_names(LicenceStatus(status).data)


def as_number(value: Decimal) -> int | float:
    return int(value) if value == int(value) else float(value)


class Amount(Money):
    """An amount of the limit's measure, as a number."""

    schema = {"type": ["number", "string"], "minimum": 0}

    def to_representation(self, value: Decimal) -> int | float:  # type: ignore[override]  # money is a text, this is not
        return as_number(value)


class LimitSerializer(serializers.ModelSerializer):
    """A limit with its current status, which is null if it is unknown or if the limit is unlimited."""

    key_id = serializers.IntegerField(allow_null=True)
    key_name = serializers.CharField(source="key.name", default=None, allow_null=True)
    user_id = serializers.IntegerField(allow_null=True)
    user_name = serializers.CharField(source="user.username", default=None, allow_null=True)
    group_id = serializers.IntegerField(allow_null=True)
    group_name = serializers.CharField(source="group.name", default=None, allow_null=True)
    provider_id = serializers.IntegerField(allow_null=True)
    provider_name = serializers.CharField(source="provider.name", default=None, allow_null=True)
    amount = Amount()
    strict = serializers.BooleanField(source="is_strict")
    unpriced_price = Amount()
    used = serializers.SerializerMethodField()
    remaining = serializers.SerializerMethodField()
    resets_at = serializers.SerializerMethodField()

    class Meta:
        model = Limit
        fields = (
            *("id", "key_id", "key_name", "user_id", "user_name", "group_id", "group_name"),
            *("provider_id", "provider_name", "measure", "window", "amount", "strict"),
            *("unpriced", "unpriced_price", "used", "remaining", "resets_at"),
        )

    def get_used(self, limit: Limit) -> float | None:
        usage = self._status(limit).used
        return None if usage is None else as_number(usage)

    def get_remaining(self, limit: Limit) -> float | None:
        usage = self._status(limit).used
        return None if usage is None or not limit.amount else as_number(max(limit.amount - usage, Decimal(0)))

    def get_resets_at(self, limit: Limit) -> datetime | None:
        return self._status(limit).resets_at

    def _status(self, limit: Limit) -> LimitStatus:
        return self.context["view"].status(limit)


Row = TypeVar("Row", bound=Model)


class RowById(serializers.Field, Generic[Row]):
    """The id of a row, read as the row."""

    schema = Id.schema

    def __init__(self, rows: QuerySet[Row], *, source: str) -> None:
        super().__init__(required=False, allow_null=True, source=source)
        self.rows = rows

    def to_internal_value(self, data: object) -> Row:
        row_id = Id().to_internal_value(data)
        return rows_by_id(self.rows, [row_id], field=camel(str(self.field_name)))[0]


class LimitChanges(Attributes):
    """The attributes of a limit that can be changed. Subject, measure and window cannot."""

    amount = Amount(required=False)
    strict = Boolean(source="is_strict", required=False)
    unpriced = Choice(Unpriced.values, required=False)
    unpriced_price = Amount(required=False)


class LimitAttributes(LimitChanges):
    """The attributes of a new limit: one subject, a measure, a window and an amount."""

    key_id = RowById(ApiKey.objects.live(), source="key")
    user_id = RowById(User.objects.live(), source="user")
    group_id = RowById(Group.objects.all(), source="group")
    provider_id = RowById(Provider.objects.all(), source="provider")
    amount = Amount()
    measure = Choice(Measure.values)
    window = Choice(Window.values, required=False)

    def validate(self, values: JsonObject) -> JsonObject:
        # Lists show null for the other subjects, so it is accepted here.
        values = {name: value for name, value in values.items() if value is not None}
        if len(values.keys() & set(SUBJECTS)) != 1:
            raise serializers.ValidationError("A limit is for one of keyId, userId, groupId and providerId.")
        return values
