"""Attributes of audit entries in answers."""

from typing import ClassVar

from rest_framework import serializers

from telemetry.audit.differences import stored_value
from telemetry.audit.models import AuditEntry


class StoredJsonField(serializers.Field):
    """A value that is stored as JSON text: an attribute's or a row's, as lists of its resource show it."""

    schema: ClassVar = {"description": "Any JSON value without secrets; null if there is none."}

    def to_representation(self, value: str) -> object:
        return stored_value(value)


class AuditEntrySerializer(serializers.ModelSerializer):
    """An audit entry."""

    before = StoredJsonField()
    after = StoredJsonField()

    class Meta:
        model = AuditEntry
        fields = (
            *("id", "timestamp", "actor", "user_id", "key_id", "action", "resource", "resource_id", "message"),
            *("before", "after", "address", "request_id", "hash", "previous_hash"),
        )
