"""Attributes of access requests: in answers, and in requests that make or decide about them."""

from rest_framework import serializers

from accounts.access_requests.models import (
    MAX_MODEL_LENGTH,
    MAX_NOTE_LENGTH,
    MAX_REASON_LENGTH,
    AccessRequest,
    RequestKind,
)
from gateway_project.api.fields import Attributes, Choice, DateTime, Id, Text
from licensing.models import Measure, Window
from licensing.serializers import Amount


class AccessRequestSerializer(serializers.ModelSerializer):
    """An access request."""

    user_id = serializers.IntegerField()
    user_name = serializers.CharField(source="user.username")
    model = serializers.SerializerMethodField()
    provider_id = serializers.IntegerField(allow_null=True)
    provider_name = serializers.CharField(source="provider.name", default=None, allow_null=True)
    group_id = serializers.IntegerField(allow_null=True)
    group_name = serializers.CharField(source="group.name", default=None, allow_null=True)
    measure = serializers.SerializerMethodField()
    window = serializers.SerializerMethodField()
    amount = Amount(allow_null=True)
    until = serializers.DateTimeField(source="ends_at", allow_null=True)
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)

    class Meta:
        model = AccessRequest
        fields = (
            *("id", "user_id", "user_name", "kind", "model", "provider_id", "provider_name"),
            *("group_id", "group_name", "measure", "window", "amount", "reason", "state", "note"),
            *("created_at", "decided_at", "decided_by", "until", "ended_at"),
        )

    def get_model(self, request: AccessRequest) -> str | None:
        return request.model or None

    def get_measure(self, request: AccessRequest) -> str | None:
        return request.measure or None

    def get_window(self, request: AccessRequest) -> str | None:
        return request.window or None


class AccessRequestAttributes(Attributes):
    """What is asked for, and why."""

    example = {"kind": "model", "model": "gpt-5", "reason": "For the evaluation in May."}
    kind = Choice(RequestKind.values)
    model = Text(required=False, max_length=MAX_MODEL_LENGTH, help_text="For the kind model: the name of the model.")
    provider_id = Id(required=False, allow_null=True, help_text="For the kind model: only the model of this provider.")
    group_id = Id(required=False, help_text="For the kind membership: the id of a group that you may see.")
    group_name = Text(
        required=False, help_text="For the kind membership, instead of groupId: the whole name of the group."
    )
    measure = Choice(Measure.values, required=False, help_text="For the kind limit.")
    window = Choice(Window.values, required=False, help_text="For the kind limit.")
    amount = Amount(required=False, help_text="For the kind limit: the amount, above the user's current limit.")
    reason = Text(max_length=MAX_REASON_LENGTH)


class Refusal(Attributes):
    """What the user is told."""

    example = {"note": "Use the smaller model."}
    note = Text(required=False, allow_blank=True, max_length=MAX_NOTE_LENGTH)


class Approval(Refusal):
    """For how long the request is granted, and what the user is told."""

    example = {"until": "2030-01-31T12:00:00Z", "note": "Until the end of the project."}
    until = DateTime(required=False, allow_null=True, help_text="When the grant ends; null: never.")
