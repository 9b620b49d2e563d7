"""Which session a request belongs to: all requests of a session go to the same target under the strategy `sticky`."""

from gateway_project.json_types import JsonObject
from gateway_project.work.cache.key import digest

# What clients send to name a user or a conversation, in this order.
FIELDS = ("user", "prompt_cache_key")
BEGINNINGS = ("system", "instructions")
TURNS = ("messages", "input", "contents", "prompt")


def session_seed(session: str, body: JsonObject) -> bytes:
    """A digest of the header X-Svc-Session, of the field that names the session, or of how the conversation began."""
    name = session or next((value for field in FIELDS if isinstance(value := body.get(field), str) and value), "")
    return digest({"session": name} if name else _conversation_start(body))


def _conversation_start(body: JsonObject) -> JsonObject:
    """The instructions, and the turns up to the first of the user: what all requests of a conversation share."""
    fields = (*BEGINNINGS, *TURNS)
    return {field: _first_turns(body[field]) for field in fields if field in body}


def _first_turns(turns: object) -> object:
    if not isinstance(turns, list):
        return turns
    for place, turn in enumerate(turns):
        if isinstance(turn, dict) and turn.get("role") == "user":
            return turns[: place + 1]
    return turns
