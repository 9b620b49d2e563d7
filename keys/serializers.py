"""Attributes of API keys: in answers, and in requests that create or change them."""

from typing import NoReturn

from rest_framework import serializers

from accounts.models import MAX_ACCESS_NAME_LENGTH
from gateway_project.api.fields import Attributes, Boolean, Choice, DateTime, Id, Integer, Read, Text
from gateway_project.api.response_specs import Message
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from keys import own_limits
from keys.models import ApiKey
from keys.restrictions import (
    MAX_NETWORK_LENGTH,
    MAX_NETWORKS,
    MAX_PATTERN_LENGTH,
    MAX_PATTERNS,
    MAX_TAG_LENGTH,
    MAX_TAGS,
    MAX_TOKENS,
    ContentLogging,
    read_models,
    read_networks,
    read_tags,
)

MAX_PERMISSIONS = 1000
MAX_OVERLAP_HOURS = 30 * 24
MAX_NAME_LENGTH = ApiKey._meta.get_field("name").max_length


class KeySerializer(serializers.ModelSerializer):
    """An API key, with its public id and without its secret."""

    user_id = serializers.IntegerField(source="owner_id")
    user_name = serializers.CharField(source="owner.username")
    created_by = serializers.IntegerField(source="created_by_id", allow_null=True)
    creator_name = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    provider = serializers.IntegerField(source="provider_id", allow_null=True)
    provider_name = serializers.CharField(source="provider.name", default=None, allow_null=True)
    permissions = serializers.SerializerMethodField()
    models = serializers.ListField(child=serializers.CharField(), source="model_patterns")
    networks = serializers.ListField(child=serializers.CharField())
    tags = serializers.DictField(child=serializers.CharField())
    content_logging = serializers.ChoiceField(list(ContentLogging))
    is_expired = serializers.BooleanField()

    class Meta:
        model = ApiKey
        fields = (
            *("id", "name", "public_id", "user_id", "user_name", "created_by", "creator_name", "expiry"),
            *("provider", "provider_name", "permissions", "models", "networks", "not_before", "tags"),
            *("max_tokens_per_request", "content_logging", "locked_time", "last_used", "is_expired", "is_deleted"),
        )

    def get_permissions(self, key: ApiKey) -> list[dict[str, str]]:
        return [{"name": name} for name in key.permissions]


class IssuedKey(Message):
    """A new key. Only this response shows its text."""

    key = serializers.CharField()


class PermissionNames(serializers.Field):
    """A list of permissions, `[{"name": "work"}, …]`; its value is the list of their names."""

    max_length = MAX_ACCESS_NAME_LENGTH
    schema = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": max_length}},
            "required": ["name"],
        },
        "maxItems": MAX_PERMISSIONS,
    }

    def to_internal_value(self, data: object) -> list[str]:
        if not isinstance(data, list) or len(data) > MAX_PERMISSIONS:
            self._refuse()
        return [self._name(element) for element in data]

    def _name(self, element: object) -> str:
        name = element.get("name") if isinstance(element, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= self.max_length:
            self._refuse()
        return name

    def _refuse(self) -> NoReturn:
        raise serializers.ValidationError(f'Must be a list of {{"name": …}}, at most {MAX_PERMISSIONS} long.')


class BooleanText(Boolean):
    """A boolean; the text "true" or "false" is accepted too."""

    schema = {"enum": [True, False, "true", "false"]}

    def to_internal_value(self, data: object) -> bool:
        texts = {"true": True, "false": False}
        return super().to_internal_value(texts.get(data, data) if isinstance(data, str) else data)


class KeySelector(Attributes):
    """Selects the keys of an owner, or one of them by its name."""

    example = {"name": "nightly"}
    user = Id(required=False, help_text="The owner (default: the caller).")
    name = Text(required=False, max_length=MAX_NAME_LENGTH, help_text="The name of the key.")


def _texts(most: int, longest: int) -> JsonObject:
    return {"type": "array", "maxItems": most, "items": {"type": "string", "minLength": 1, "maxLength": longest}}


class Restrictions(Attributes):
    """What narrows a key; an empty value restricts nothing."""

    models = Read(
        read_models,
        _texts(MAX_PATTERNS, MAX_PATTERN_LENGTH),
        required=False,
        help_text="Patterns (RE2, whole name) of the models and aliases that the key may use, if rules allow them too.",
    )
    networks = Read(
        read_networks,
        _texts(MAX_NETWORKS, MAX_NETWORK_LENGTH),
        required=False,
        help_text="The only networks that the key is accepted from, IPv4 or IPv6, such as `192.0.2.0/24`.",
    )
    not_before = DateTime(required=False, allow_null=True, help_text="The key is refused before this time.")
    tags = Read(
        read_tags,
        {
            "type": "object",
            "maxProperties": MAX_TAGS,
            "additionalProperties": {"type": "string", "maxLength": MAX_TAG_LENGTH},
        },
        required=False,
        help_text="Tags of each request with the key. They replace tags of the same name in `X-Svc-Tags`.",
    )
    max_tokens_per_request = Integer(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_TOKENS,
        help_text="The most tokens that an answer may have. A request without a maximum is sent to the provider with "
        "this one.",
    )
    content_logging = Choice(
        list(ContentLogging),
        required=False,
        help_text="What the log keeps of prompts and answers: the same as the gateway, sizes and hashes, or nothing. "
        "Only admins can set less than the gateway keeps.",
    )


class OwnLimits(Read):
    """The limits of a new key."""

    def __init__(self) -> None:
        help_text = "Limits of the key, as in `/limits/`. Only admins can set more than the defaults."
        super().__init__(_read_limits, own_limits.SCHEMA, required=False, help_text=help_text)


def _read_limits(value: object, path: str) -> list[object]:
    if not isinstance(value, list) or len(value) > own_limits.MAX_OWN_LIMITS:
        raise ValidationError(f"must be an array of at most {own_limits.MAX_OWN_LIMITS} limits.", field=path)
    return value


class NewKeyAttributes(Restrictions):
    """The attributes of a new key."""

    example = {
        "name": "nightly",
        "expiry": "2100-01-01T00:00:00Z",
        "permissions": [{"name": "work"}],
        "models": ["gpt-.*"],
        "networks": ["192.0.2.0/24"],
    }
    name = Text(max_length=MAX_NAME_LENGTH)
    expiry = DateTime(
        required=False,
        allow_null=True,
        help_text="When the key expires; null: never (default: one year from now). GATEWAY_KEY_MAX_DAYS may limit it.",
    )
    permissions = PermissionNames(required=False, help_text="A subset of the owner's features (default: `work`).")
    provider = Id(required=False, allow_null=True, help_text="The only provider that the key may use, with any model.")
    user = Id(required=False, help_text="The owner (default: the caller).")
    limits = OwnLimits()


class RotationAttributes(Attributes):
    """The attributes of a rotation."""

    example = {"overlapHours": 1}
    overlap_hours = Integer(
        required=False,
        min_value=0,
        max_value=MAX_OVERLAP_HOURS,
        help_text="Hours for which the previous secret stays valid (default: 24). Send 0 if the key has leaked.",
    )


class KeyAttributes(KeySelector, Restrictions):
    """The attributes of a key that can be changed; `name` and `user` select the key."""

    example = {"name": "nightly", "newName": "weekly"}
    new_name = Text(required=False, max_length=MAX_NAME_LENGTH)
    expire = BooleanText(required=False, help_text="true lets the key expire now.")
    expiry = DateTime(required=False, allow_null=True, help_text="When the key expires; null: never.")
    permissions = PermissionNames(required=False, help_text="The complete list: a subset of the owner's features.")
    provider = Id(required=False, allow_null=True, help_text="The only provider that the key may use; 0 or null: any.")
    locked = Boolean(required=False, help_text="A locked key is refused. Only admins can change this.")
