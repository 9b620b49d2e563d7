"""Attributes of what-ifs: drafts and periods in requests, progress and results in answers."""

from rest_framework import serializers

from gateway_project.api.fields import Attributes, DateTime, Read
from gateway_project.json_types import JsonObject
from gateway_project.work.what_if.drafts import KINDS, MAX_DRAFTED
from gateway_project.work.what_if.guardrails.counts import COLUMNS
from gateway_project.work.what_if.outcome import COUNTED, NUMBERS, Gap
from gateway_project.work.what_if.traffic import MAX_EXAMPLES
from rules.what_if.models import State, WhatIf

DRAFTS: JsonObject = {"type": "array", "items": {"type": "object"}, "maxItems": MAX_DRAFTED}
IDS: JsonObject = {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": MAX_DRAFTED}
DELETIONS: JsonObject = {"type": "object", "properties": dict.fromkeys(KINDS, IDS), "additionalProperties": False}
AMOUNTS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}, "description": "By currency."}
NUMBER: JsonObject = {"type": "integer", "minimum": 0}
SHARE: JsonObject = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
ENTRIES: JsonObject = {"type": "array", "items": {"type": "integer"}, "maxItems": MAX_EXAMPLES}
EXAMPLES: JsonObject = {
    "type": "object",
    "properties": {number.value: ENTRIES for number in NUMBERS},
    "description": "Ids of log entries behind each number, by the number's name. Behind a share of the cache: the "
    "requests that the cache answered.",
}
ALL_EXAMPLES = {**EXAMPLES, "properties": {**EXAMPLES["properties"], **{gap.value: ENTRIES for gap in Gap}}}
LOG: JsonObject = {"type": "string", "description": "The path of these requests in the log."}
COUNTS: JsonObject = {
    "requests": NUMBER,
    **{change.value: NUMBER for change in COUNTED},
    "refusedByLimits": {**NUMBER, "description": "How many of the newly denied requests limits refuse."},
    "blockedByGuardrails": {
        **NUMBER,
        "description": "How many of the newly denied requests guardrails block.",
    },
    "costBefore": AMOUNTS,
    "costAfter": AMOUNTS,
    "cacheShareBefore": SHARE,
    "cacheShareAfter": SHARE,
    "examples": EXAMPLES,
}


def _rows(**members: JsonObject) -> JsonObject:
    return {"type": "array", "items": {"type": "object", "properties": {**members, **COUNTS, "log": LOG}}}


GUARDRAIL: JsonObject = {
    "guardrailId": {"type": ["integer", "null"], "description": "Null for a new guardrail."},
    "guardrail": {"type": "string"},
    **dict.fromkeys(COLUMNS, NUMBER),
    "examples": {"type": "object", "properties": dict.fromkeys(COLUMNS, ENTRIES)},
}
RESULT: JsonObject = {
    "type": ["object", "null"],
    "properties": {
        **COUNTS,
        "examples": ALL_EXAMPLES,
        "log": LOG,
        "skipped": {**NUMBER, "description": "Requests of users who are not active now."},
        "unknownCosts": NUMBER,
        "refusedOtherwise": {
            **NUMBER,
            "description": "Requests that were refused for other reasons than rules and stay refused.",
        },
        "unknownTexts": {
            **NUMBER,
            "description": "Requests of which it is unknown whether guardrails would block them.",
        },
        "byUser": _rows(userId=NUMBER, userName={"type": "string"}),
        "byGroup": _rows(groupId=NUMBER, groupName={"type": "string"}),
        "byModel": _rows(model={"type": "string"}),
        "byGuardrail": {"type": "array", "items": {"type": "object", "properties": GUARDRAIL}},
        "unknown": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What the result cannot know, in sentences.",
        },
    },
    "description": "What would have been different; null while it runs, and in lists.",
}


def _keep_unread(value: object, place: str) -> object:
    """The draft is read as a whole, when all of it is there."""
    return value


def _drafts(resource: str) -> Read:
    return Read(
        _keep_unread,
        DRAFTS,
        required=False,
        help_text=f"As in the create request of {resource}; with `id` it replaces that row.",
    )


class WhatIfAttributes(Attributes):
    """A draft, and the period whose requests it is tried on."""

    example = {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-08T00:00:00Z",
        "rules": [{"name": "No large models", "effect": "deny", "regex": "gpt-5", "userId": 0}],
        "delete": {"rules": [4]},
    }
    start = DateTime()
    end = DateTime(help_text="Exclusive; at most 366 days after the start.")
    rules = _drafts("rules")
    aliases = _drafts("aliases")
    limits = _drafts("limits")
    prices = _drafts("prices")
    guardrails = _drafts("guardrails")
    delete = Read(_keep_unread, DELETIONS, required=False, help_text="Ids of rows that the draft deletes.")


class DraftField(serializers.Field[JsonObject, object, object, WhatIf]):
    """A part of the draft, as it was sent."""

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema
        super().__init__(source="draft", read_only=True)

    def to_representation(self, value: JsonObject) -> object:
        return value.get(str(self.field_name), {} if self.schema["type"] == "object" else [])


class Result(serializers.Field[JsonObject, object, object, WhatIf]):
    """What came of it; lists leave it out."""

    schema = RESULT

    def to_representation(self, value: JsonObject) -> JsonObject | None:
        view = self.context.get("view")
        return None if getattr(view, "action", None) == "list" else value


class WhatIfSerializer(serializers.ModelSerializer[WhatIf]):
    """A draft that is tried on recorded requests. `error` says why one has failed."""

    state = serializers.ChoiceField(State.choices)
    progress = serializers.FloatField(min_value=0, max_value=1)
    rules = DraftField(DRAFTS)
    aliases = DraftField(DRAFTS)
    limits = DraftField(DRAFTS)
    prices = DraftField(DRAFTS)
    guardrails = DraftField(DRAFTS)
    delete = DraftField(DELETIONS)
    result = Result(read_only=True, allow_null=True)

    class Meta:
        model = WhatIf
        fields = (
            *("id", "state", "progress", "start", "end", *KINDS, "delete", "user_id", "user_name"),
            *("created_at", "started_at", "ended_at", "error", "result"),
        )
