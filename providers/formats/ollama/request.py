"""A conversation as Ollama's /api/chat takes it."""

from collections.abc import Sequence

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.neutral.chat import Thinking
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
)
from providers.formats.parts import arguments_object, result_text, split_results, text_of_turn, unsupported_part

NAME = "ollama"
# Parameters that Ollama has in `options`.
OPTIONS = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
# The efforts by which Ollama's OpenAI-compatible API replaces those that it does not have.
EFFORTS: dict[str, bool | str] = {"none": False, "minimal": "low", "xhigh": "max"}


def turns_of(message: Message) -> list[JsonObject]:
    """A message as Ollama takes it; each tool result is a separate message."""
    results, others = split_results(message)
    turns = [_write_result(result) for result in results]
    return [*turns, _write_turn(message.role, others)] if others or not results else turns


def _write_turn(role: str, parts: list[Part]) -> JsonObject:
    body: JsonObject = {"role": role, "content": text_of_turn(role, parts)}
    if thoughts := "".join(part.text for part in parts if isinstance(part, Reasoning) and part.source == NAME):
        body["thinking"] = thoughts
    if calls := [part for part in parts if isinstance(part, ToolCall)]:
        body["tool_calls"] = [_write_call(call) for call in calls]
    if images := _images(parts):
        body["images"] = images
    return body


def _images(parts: Sequence[Part]) -> list[str]:
    """Base64 of images and sounds; Ollama takes both in `images`. Raises ValidationError for other parts."""
    images = []
    for part in parts:
        if isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("audio/")):
            if not part.data:
                raise ValidationError(
                    "messages: this provider takes images inside the request only: "
                    "send data:TYPE;base64,… in place of an address."
                )
            images.append(part.data)
        elif not isinstance(part, Text | Refusal | Reasoning | ToolCall):
            raise unsupported_part(part)
    return images


def _write_call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call)}}


def _write_result(result: ToolResult) -> JsonObject:
    body: JsonObject = {"role": "tool", "content": result_text(result), "tool_call_id": result.call_id}
    if result.name:
        body["tool_name"] = result.name
    if images := _images(result.parts):
        body["images"] = images
    return body


def think_of(thinking: Thinking) -> bool | str | None:
    """Ollama's `think`: on, off or an effort; None leaves it out."""
    if thinking.enabled is False:
        return False
    if thinking.effort:
        return EFFORTS.get(thinking.effort, thinking.effort)
    return True if thinking.enabled or thinking.budget else None
