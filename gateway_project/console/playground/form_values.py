"""What the playground's form and conversation hold at first, where it is opened from a log entry.

All of it is hostile text: the template escapes it, and the script shows it as text.
"""

import json

from gateway_project.console.playground.logged_request import LoggedRequest
from gateway_project.json_types import JsonObject

SYSTEM_ROLES = ("system", "developer")
OWN_FIELDS = ("temperature", "max_tokens", "tools")


def form_values(request: LoggedRequest) -> JsonObject:
    """The template context: values of the fields, and what the script goes on with (`conversation`).

    The last question is in the form, to be sent again; so are the results of tools, if they are the last.
    """
    system, rest = _split_system(request.messages)
    rest, results = _split_results(rest)
    rest, prompt, attachments = _split_prompt(rest)
    schema, output = _split_schema(request.parameters)
    parameters = {name: value for name, value in request.parameters.items() if name not in OWN_FIELDS}
    if schema:
        parameters.pop("response_format")
    return {
        "system": system,
        "prompt": prompt,
        "has_parameters": bool(request.parameters),
        "temperature": request.parameters.get("temperature", ""),
        "max_tokens": request.parameters.get("max_tokens", ""),
        "tools": _json(request.parameters.get("tools")),
        "schema": _json(schema),
        "more": _json(parameters),
        "conversation": {"messages": rest, "results": results, "attachments": attachments, "output": output},
    }


def text_of(content: object) -> str:
    """The text of a message's content."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return "\n".join(part["text"] for part in content if _is_text(part))


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _split_system(messages: list[JsonObject]) -> tuple[str, list[JsonObject]]:
    """The system prompt at the beginning, and the other messages."""
    number = next((at for at, message in enumerate(messages) if message.get("role") not in SYSTEM_ROLES), len(messages))
    texts = [text_of(message.get("content")) for message in messages[:number]]
    return "\n\n".join(filter(None, texts)), messages[number:]


def _split_results(messages: list[JsonObject]) -> tuple[list[JsonObject], dict[str, str]]:
    """The messages without results of tools at their end, and these results by the ids of their calls."""
    end = len(messages)
    while end and messages[end - 1].get("role") == "tool":
        end -= 1
    results = {str(message.get("tool_call_id")): text_of(message.get("content")) for message in messages[end:]}
    called = {call.get("id") for call in (messages[end - 1].get("tool_calls") or [] if end else [])}
    return (messages[:end], results) if results.keys() <= called else (messages, {})


def _split_prompt(messages: list[JsonObject]) -> tuple[list[JsonObject], str, list[JsonObject]]:
    """The messages before the last question, its text, and its images and files."""
    if not messages or messages[-1].get("role") != "user":
        return messages, "", []
    content = messages[-1].get("content")
    others = [part for part in content if not _is_text(part)] if isinstance(content, list) else []
    return messages[:-1], text_of(content), others


def _split_schema(parameters: JsonObject) -> tuple[JsonObject | None, JsonObject]:
    """The JSON schema of the answer, and what else is said of it: its name, whether it is strict."""
    form = parameters.get("response_format")
    described = form.get("json_schema") if isinstance(form, dict) else None
    if not isinstance(described, dict) or not isinstance(described.get("schema"), dict):
        return None, {}
    return described["schema"], {name: value for name, value in described.items() if name != "schema"}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
