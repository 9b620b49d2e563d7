"""A conversation as Cohere's chat takes it (version 2 of its API)."""

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict
from providers.formats.neutral.chat import Chat, Thinking, ToolMode
from providers.formats.neutral.messages import (
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.openai.request import image_url
from providers.formats.parts import function_of, result_text, split_results, text_of, text_of_turn, unsupported_part

NAME = "cohere"
MOST_STOPS = 5
# Cohere's bounds of `p`; other providers take 0 to 1.
LEAST_P, MOST_P = 0.01, 0.99
NOT_CITED = "OFF"
PARAMETERS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "stop": "stop_sequences",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def turns_of(message: Message) -> list[JsonObject]:
    """A message as Cohere takes it; each tool result is a separate message."""
    results, others = split_results(message)
    turns = [_write_result(result) for result in results]
    if not others and results:
        return turns
    turn = _write_answer(others) if message.role == "assistant" else {"content": _content(message.role, others)}
    return [*turns, {"role": message.role, **turn}]


def _write_result(result: ToolResult) -> JsonObject:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)}


def _write_answer(parts: list[Part]) -> JsonObject:
    """An assistant message. If it has calls, its thoughts are their `tool_plan`."""
    calls = [_write_call(part) for part in parts if isinstance(part, ToolCall)]
    thoughts = [part.text for part in parts if isinstance(part, Reasoning) and part.source == NAME and part.text]
    text, own = text_of(parts), _own_parts(parts)
    if calls:
        plan = {"tool_plan": "".join(thoughts)} if thoughts else {}
        return {"tool_calls": calls} | plan | ({"content": text} if text else {}) | own
    items = [{"type": "thinking", "thinking": thought} for thought in thoughts]
    return {"content": [*items, {"type": "text", "text": text}] if items else text} | own


def _own_parts(parts: list[Part]) -> JsonObject:
    """Cohere's own parts beside text, thoughts and calls. Raises ValidationError for parts of other sources."""
    own: JsonObject = {}
    for part in parts:
        if isinstance(part, Verbatim) and part.source == NAME:
            own |= part.value
        elif not isinstance(part, Text | Refusal | Reasoning | ToolCall):
            raise unsupported_part(part)
    return own


def _content(role: str, parts: list[Part]) -> str | list[JsonObject]:
    """The content: a string if all parts are text, else a list of parts."""
    if all(isinstance(part, Text | Refusal) for part in parts):
        return text_of_turn(role, parts)
    return [_write_part(part) for part in parts]


def _write_part(part: Part) -> JsonObject:
    if isinstance(part, Text | Refusal):
        return {"type": "text", "text": part.text}
    if not isinstance(part, Image):
        raise unsupported_part(part)
    image = {"url": image_url(part)}
    if part.detail:
        image["detail"] = part.detail
    return {"type": "image_url", "image_url": image}


def _write_call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}


def tools_of(chat: Chat) -> JsonObject:
    """Tools and the choice among them. A tool that is required by name is the only one that is offered."""
    choice, tools = chat.tool_choice, chat.tools
    if choice is not None and choice.mode == ToolMode.TOOL:
        tools = [tool for tool in tools if tool.name == choice.name]
    fields: JsonObject = {"tools": [function_of(tool) for tool in tools]}
    if choice is not None and choice.mode != ToolMode.AUTO:
        fields["tool_choice"] = "NONE" if choice.mode == ToolMode.NONE else "REQUIRED"
    if any(tool.strict for tool in tools):
        fields["strict_tools"] = True
    return fields


def citations_off(chat: Chat) -> JsonObject:
    """The option that turns citations off, for shapes without them. Raises ValidationError if the client wants them."""
    if as_dict(chat.extra.get("citation_options")).get("mode", NOT_CITED) != NOT_CITED:
        raise ValidationError(
            "citation_options: answers of this API cannot contain citations. Use /work to get them.",
            field="citation_options",
        )
    cites = "documents" in chat.extra or any(message.role == "tool" for message in chat.messages)
    return {"citation_options": {"mode": NOT_CITED}} if cites else {}


def thinking_of(thinking: Thinking) -> JsonObject:
    """Cohere's `thinking`: on, off or with a budget. It has no efforts."""
    if thinking.enabled is False or thinking.effort == "none":
        return {"type": "disabled"}
    if thinking.budget is not None:
        return {"type": "enabled", "token_budget": thinking.budget}
    return {"type": "enabled"} if thinking.effort or thinking.enabled else {}
