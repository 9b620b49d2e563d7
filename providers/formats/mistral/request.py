"""A conversation as Mistral's chat completions take it."""

import re
from collections.abc import Sequence

from gateway_project.json_types import JsonObject
from providers.formats.ids import fitting_id
from providers.formats.neutral.chat import Chat, Thinking, Tool, ToolChoice, ToolMode
from providers.formats.neutral.messages import (
    File,
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
from providers.formats.parts import (
    answers_as_text,
    function_of,
    result_text,
    results_as_text,
    split_results,
    text_of_turn,
    unsupported_part,
)
from providers.formats.translated import system_as_user

NAME = "mistral"
CALL_ID = re.compile(r"[A-Za-z0-9]{9}")
CALL_ID_LENGTH = 9
PARAMETERS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop": "stop",
    "seed": "random_seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tools": "parallel_tool_calls",
}
# The answer to a tool's result that a user did not wait for: Mistral refuses a user's message directly after a result.
RECEIPT = "OK."
# Mistral's own kinds of chunks, which pass in a body of OpenAI's shape.
CHUNKS = {"document_url", "reference", "thinking"}


def messages_of(chat: Chat) -> list[JsonObject]:
    """The messages in an order that Mistral takes. The model continues a final assistant message (`prefix`)."""
    turns: list[JsonObject] = []
    for message in answers_as_text(results_as_text(chat.messages)):
        # Mistral refuses a system message after an answer or a tool result.
        late = message.role == "system" and turns and turns[-1]["role"] in ("assistant", "tool")
        more = _turns_of(system_as_user(message) if late else message)
        if turns and more and (turns[-1]["role"], more[0]["role"]) == ("tool", "user"):
            turns.append({"role": "assistant", "content": RECEIPT})
        turns += more
    if turns and turns[-1]["role"] == "assistant" and "tool_calls" not in turns[-1]:
        turns[-1]["prefix"] = True
    return turns


def _turns_of(message: Message) -> list[JsonObject]:
    """A message as Mistral takes it. Each tool result is a separate message; an empty answer is left out."""
    results, others = split_results(message)
    turns = [_write_result(result) for result in results]
    if message.role == "assistant":
        return turns + _write_answer(others)
    if not others and results:
        return turns
    return [*turns, {"role": message.role, "content": _content(message.role, others)}]


def _write_result(result: ToolResult) -> JsonObject:
    call_id = fitting_id(result.call_id, CALL_ID, CALL_ID_LENGTH)
    body: JsonObject = {"role": "tool", "tool_call_id": call_id, "content": result_text(result)}
    if result.name:
        body["name"] = result.name
    return body


def _write_answer(parts: list[Part]) -> list[JsonObject]:
    calls = [_write_call(part) for part in parts if isinstance(part, ToolCall)]
    thoughts = [_write_thought(part) for part in parts if isinstance(part, Reasoning) and part.source == NAME]
    others = [part for part in parts if not isinstance(part, ToolCall | Reasoning)]
    content = [*thoughts, *_chunks(others)] if thoughts else _content("assistant", others)
    answer = ({"content": content} if content else {}) | ({"tool_calls": calls} if calls else {})
    return [{"role": "assistant", **answer}] if answer else []


def _write_call(call: ToolCall) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": fitting_id(call.id, CALL_ID, CALL_ID_LENGTH), "type": "function", "function": function}


def _write_thought(thought: Reasoning) -> JsonObject:
    body: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]}
    if thought.signature:
        body["signature"] = thought.signature
    return body


def _content(role: str, parts: Sequence[Part]) -> str | list[JsonObject]:
    """The content: a string if all parts are text, else a list of chunks."""
    return text_of_turn(role, parts) if all(isinstance(part, Text | Refusal) for part in parts) else _chunks(parts)


def _chunks(parts: Sequence[Part]) -> list[JsonObject]:
    return [_chunk(part) for part in parts]


def _chunk(part: Part) -> JsonObject:
    match part:
        case Text() | Refusal():
            return {"type": "text", "text": part.text}
        case Image():
            image = {"url": image_url(part)}
            return {"type": "image_url", "image_url": image | ({"detail": part.detail} if part.detail else {})}
        case File():
            return _file(part)
        case Verbatim(value={"type": str(kind)}) if kind in CHUNKS:
            return part.value
    raise unsupported_part(part)


def _file(part: File) -> JsonObject:
    if part.id:
        return {"type": "file", "file_id": part.id}
    if part.media_type.startswith("audio/"):
        return {"type": "input_audio", "input_audio": part.data or part.url}
    document = {"type": "document_url", "document_url": part.url or f"data:{part.media_type};base64,{part.data}"}
    return document | ({"document_name": part.name} if part.name else {})


def write_tool(tool: Tool) -> JsonObject:
    """A tool as Mistral takes it."""
    body = function_of(tool)
    if tool.strict is not None:
        body["function"]["strict"] = tool.strict
    return body


def tool_choice_of(choice: ToolChoice) -> str | JsonObject:
    """The choice as Mistral takes it; its word for `required` is `any`."""
    if choice.mode == ToolMode.TOOL:
        return {"type": "function", "function": {"name": choice.name}}
    return "any" if choice.mode == ToolMode.REQUIRED else choice.mode


def effort_of(thinking: Thinking) -> str:
    """Mistral's `reasoning_effort`: OpenAI's names, and no budget."""
    if thinking.enabled is False:
        return "none"
    if thinking.effort:
        return "xhigh" if thinking.effort == "max" else thinking.effort
    return "high" if thinking.enabled or thinking.budget else ""
