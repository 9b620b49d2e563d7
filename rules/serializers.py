"""Attributes of access rules: in answers, and in requests that create or change them."""

from rest_framework import serializers

from gateway_project.api.fields import Attributes, Boolean, Choice, Id, Integer, Text
from rules.guardrails.models import MAX_POSITION
from rules.models import MAX_DESCRIPTION_LENGTH, MAX_PATTERN_LENGTH, Effect, Everyone, Rule

MAX_NAME_LENGTH = Rule._meta.get_field("name").max_length
EVERYONE = 0  # the userId or groupId of a rule for everyone


class RuleSerializer(serializers.ModelSerializer):
    """An access rule. A userId or groupId of 0 means everyone."""

    user_id = serializers.SerializerMethodField()
    user_name = serializers.CharField(source="user.username", default=None, allow_null=True)
    group_id = serializers.SerializerMethodField()
    group_name = serializers.CharField(source="group.name", default=None, allow_null=True)
    provider_id = serializers.IntegerField(allow_null=True)
    provider_name = serializers.CharField(source="provider.name", default=None, allow_null=True)

    class Meta:
        model = Rule
        fields = (
            *("id", "name", "description", "enabled", "effect", "position", "regex", "user_id", "user_name"),
            *("group_id", "group_name", "provider_id", "provider_name"),
        )

    def get_user_id(self, rule: Rule) -> int | None:
        return EVERYONE if rule.everyone == Everyone.USER else rule.user_id

    def get_group_id(self, rule: Rule) -> int | None:
        return EVERYONE if rule.everyone == Everyone.GROUP else rule.group_id


class Pattern(Text):
    """A pattern; null is the empty pattern, which matches every model."""

    def __init__(self, *, required: bool = True, help_text: str | None = None) -> None:
        super().__init__(
            allow_blank=True,
            allow_null=True,
            max_length=MAX_PATTERN_LENGTH,
            required=required,
            help_text=help_text,
        )


class RuleAttributes(Attributes):
    """The attributes of a rule that can be set."""

    example = {"name": "Everyone may use the small models", "enabled": True, "regex": "gpt-5-.*", "userId": 0}
    name = Text(max_length=MAX_NAME_LENGTH)
    description = Text(required=False, allow_blank=True, max_length=MAX_DESCRIPTION_LENGTH)
    enabled = Boolean(required=False)
    effect = Choice(
        Effect.values,
        required=False,
        help_text="deny rules are checked before allow rules. A deny rule leaves its provider out; without a provider "
        "it refuses the request.",
    )
    position = Integer(
        required=False,
        min_value=0,
        max_value=MAX_POSITION,
        help_text="The order among rules with the same effect: lower numbers first, then by id (default: 100).",
    )
    regex = Pattern(required=False, help_text="An RE2 pattern for the whole model name. Empty or null: every model.")
    user_id = Id(
        required=False,
        allow_null=True,
        help_text="The user that the rule applies to; 0: everyone. Not together with groupId.",
    )
    group_id = Id(
        required=False,
        allow_null=True,
        help_text="The group that the rule applies to; 0: everyone. Not together with userId.",
    )
    provider_id = Id(required=False, allow_null=True, help_text="0 or null: any provider.")
