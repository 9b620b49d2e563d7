"""Attributes of guardrails: in answers, and in requests that create or change them."""

from rest_framework import serializers

from gateway_project.api.fields import Attributes, Boolean, Choice, Integer, Text
from rules.aliases.serializers import Read
from rules.guardrails.audience import MAX_REFERENCES, read_audience, read_parameters
from rules.guardrails.models import (
    EVERYONE,
    MAX_DESCRIPTION_LENGTH,
    MAX_NAME_LENGTH,
    MAX_POSITION,
    MAX_SAMPLE_DAYS,
    Action,
    Direction,
    FailMode,
    Guardrail,
    GuardrailType,
)

REFERENCES = {"type": "array", "maxItems": MAX_REFERENCES}
IDS = {**REFERENCES, "items": {"type": "integer", "minimum": 1}}
AUDIENCE = {
    "type": "object",
    "properties": {
        EVERYONE: {"type": "boolean"},
        "groups": {**IDS, "description": "Groups of the user, by id."},
        "users": IDS,
        "rules": {**IDS, "description": "Rules that allow the request."},
        "keys": {
            **REFERENCES,
            "items": {"type": ["integer", "string"]},
            "description": "Keys by id; a public id is accepted, too.",
        },
        "aliases": {**REFERENCES, "items": {"type": "string"}, "description": "Names of the aliases asked for."},
    },
    "additionalProperties": False,
}
ACTION = "What happens after a match (default: block; for the type injection: monitor)."
PARAMETERS = {"type": "object", "additionalProperties": True}


class GuardrailSerializer(serializers.ModelSerializer):
    """A guardrail."""

    parameters = serializers.DictField(source="shown_parameters")
    applies_to = serializers.DictField()

    class Meta:
        model = Guardrail
        fields = (
            *("id", "name", "description", "enabled", "position", "direction", "action", "type", "parameters"),
            *("fail_mode", "samples", "sample_days", "applies_to"),
        )


class GuardrailAttributes(Attributes):
    """The attributes of a guardrail that can be set."""

    example = {
        "name": "No card numbers",
        "action": "redact",
        "type": "pii",
        "parameters": {"kinds": ["card"]},
        "appliesTo": {"groups": [1]},
    }
    name = Text(max_length=MAX_NAME_LENGTH)
    description = Text(required=False, allow_blank=True, max_length=MAX_DESCRIPTION_LENGTH)
    enabled = Boolean(required=False)
    position = Integer(
        required=False,
        min_value=0,
        max_value=MAX_POSITION,
        help_text="The order among guardrails: lower numbers first. It decides which redaction counts where two "
        "overlap.",
    )
    direction = Choice(Direction.values, required=False, help_text="What is searched: requests, answers or both.")
    action = Choice(Action.values, required=False, help_text=ACTION)
    type = Choice(GuardrailType.values, help_text="What is searched for.")
    parameters = Read(read_parameters, PARAMETERS, required=False, help_text="By type.")
    fail_mode = Choice(FailMode.values, required=False, help_text="What happens while the guardrail cannot run.")
    samples = Boolean(required=False, help_text="Whether some of the matches are kept: /guardrails/{id}/samples/.")
    sample_days = Integer(
        required=False, min_value=1, max_value=MAX_SAMPLE_DAYS, help_text="How long samples are kept."
    )
    applies_to = Read(read_audience, AUDIENCE, required=False, help_text="Everyone, or everybody in one of the lists.")
