"""Attributes of aliases: in answers, and in requests that create or change them."""

from rest_framework import serializers

from gateway_project.api.fields import Attributes, Boolean, Choice, Read, Text
from gateway_project.json_types import JsonObject
from rules.aliases.drafts import MAX_TAGS, read_mirror, read_targets, targets_as_json
from rules.aliases.models import (
    MAX_DESCRIPTION_LENGTH,
    MAX_NAME_LENGTH,
    MAX_TARGETS,
    MAX_TIER,
    MAX_WEIGHT,
    Alias,
    FallbackCause,
    Strategy,
)

NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH}
NUMBER = {"type": "integer", "minimum": 1}
MATCH = {
    "type": ["object", "null"],
    "description": "The conditions that a request must meet, all of them; null: the target serves every request.",
    "properties": {
        "tags": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "maxProperties": MAX_TAGS,
            "description": "The request has these tags.",
        },
        "groupId": {**NUMBER, "description": "The user is in this group."},
        "userId": NUMBER,
        "keyName": {**NAME, "description": "The request has the user's key with this name; needs userId."},
    },
    "additionalProperties": False,
}
SHARE = {
    "weight": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_WEIGHT,
        "default": 1,
        "description": "Share within the tier; 0: only after the others.",
    },
    "tier": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_TIER,
        "default": 0,
        "description": "Lower is tried first.",
    },
    "match": MATCH,
}
TARGET = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"provider": {**NUMBER, "description": "Its id."}, "model": NAME, **SHARE},
            "required": ["provider", "model"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"alias": NAME, **SHARE},
            "required": ["alias"],
            "additionalProperties": False,
        },
    ]
}
MIRROR = {
    "type": ["object", "null"],
    "properties": {
        "provider": NUMBER,
        "model": NAME,
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    },
    "required": ["provider", "model", "share"],
    "additionalProperties": False,
}


class AliasSerializer(serializers.ModelSerializer):
    """An alias."""

    fallback_on = serializers.ListField(child=serializers.ChoiceField(FallbackCause.values))
    targets = serializers.SerializerMethodField()
    mirror = serializers.SerializerMethodField()

    class Meta:
        model = Alias
        fields = ("id", "name", "description", "enabled", "strategy", "fallback_on", "targets", "mirror", "hedge")

    def get_targets(self, alias: Alias) -> list[JsonObject]:
        return targets_as_json(list(alias.targets.all()))

    def get_mirror(self, alias: Alias) -> JsonObject | None:
        if alias.mirror is None:
            return None
        return {"provider": alias.mirror.provider_id, "model": alias.mirror.name, "share": alias.mirror_share}


class AliasAttributes(Attributes):
    """The attributes of an alias that can be set."""

    example = {
        "name": "fast",
        "strategy": "weighted",
        "fallbackOn": ["error", "rate_limited"],
        "targets": [
            {"provider": 1, "model": "gpt-5-mini", "weight": 3},
            {"provider": 2, "model": "claude-haiku-4-5", "weight": 1},
            {"provider": 1, "model": "gpt-5", "tier": 1},
        ],
    }
    name = Text(
        max_length=MAX_NAME_LENGTH,
        help_text="The name that clients ask for. * stands for any characters. Of several names that match, the one "
        "with the most other characters applies.",
    )
    description = Text(required=False, allow_blank=True, max_length=MAX_DESCRIPTION_LENGTH)
    enabled = Boolean(required=False)
    strategy = Choice(Strategy.values, required=False, help_text="How one target of a tier is chosen.")
    fallback_on = serializers.ListField(
        child=Choice(FallbackCause.values),
        required=False,
        max_length=len(FallbackCause.values),
        help_text="The failures after which the next target is asked.",
    )
    targets = Read(
        read_targets,
        {"type": "array", "items": TARGET, "maxItems": MAX_TARGETS},
        required=False,
        help_text="The targets that serve the alias. A change replaces all of them.",
    )
    mirror = Read(read_mirror, MIRROR, required=False, help_text="The model that also gets a share of the requests.")
    hedge = Boolean(required=False, help_text="Whether a second target is asked when the first is slower than usual.")
