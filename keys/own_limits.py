"""Limits that a key gets while it is created; the app of limits stores them."""

from gateway_project.api.access import Caller
from gateway_project.env import MEASURES, WINDOWS
from gateway_project.hooks import Hook
from gateway_project.json_types import JsonObject
from keys.models import ApiKey

MAX_OWN_LIMITS = 20
SCHEMA: JsonObject = {
    "type": "array",
    "maxItems": MAX_OWN_LIMITS,
    "items": {
        "type": "object",
        "properties": {
            "measure": {"enum": list(MEASURES)},
            "window": {"enum": [*WINDOWS, "none"]},
            "amount": {"type": ["number", "string"], "minimum": 0},
            "strict": {"type": "boolean"},
            "unpriced": {"enum": ["refuse", "count", "ignore"]},
            "unpricedPrice": {"type": ["number", "string"], "minimum": 0},
        },
        "required": ["measure", "amount"],
        "additionalProperties": False,
    },
}
# (key, limits as they were sent, who sent them); raises ValidationError and PermissionDenied.
set_own_limits: Hook[[ApiKey, list[object], Caller], None] = Hook("set_own_limits")
