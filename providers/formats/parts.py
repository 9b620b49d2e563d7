"""Functions on parts of a conversation that several formats share: texts, tool calls, ids, unsupported parts."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NoReturn
from urllib.parse import quote

from gateway_project.api.strict_json import is_deeper
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import MAX_DEPTH, as_dict, as_text, dump_value
from providers.formats.neutral.chat import Chat, Embedding, Tool
from providers.formats.neutral.messages import File, Image, Message, Part, Refusal, Text, ToolCall, ToolResult, Verbatim
from providers.formats.neutral.reply import FinishReason

NOUNS = {Image: "an image", File: "a file", ToolCall: "a tool call", ToolResult: "a tool result"}


def text_of(parts: Sequence[Part]) -> str:
    """The texts of the parts, refusals included, as one string."""
    return "".join(part.text for part in parts if isinstance(part, Text | Refusal))


def paragraphs_of(parts: Sequence[Part]) -> str:
    """The text of a system prompt: its parts, separated by blank lines."""
    return "\n\n".join(part.text for part in parts if isinstance(part, Text) and part.text)


def lines_of(parts: Sequence[Part]) -> str:
    """The text of a user or a tool: its parts on separate lines. (An answer's parts are one text: text_of().)"""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def text_of_turn(role: str, parts: Sequence[Part]) -> str:
    """The text of a message, for providers that take one text per message."""
    if role == "assistant":
        return text_of(parts)
    return paragraphs_of(parts) if role == "system" else lines_of(parts)


def result_text(result: ToolResult) -> str:
    """The text of a result, for providers without a field for failed calls."""
    text = lines_of(result.parts)
    return f"Error: {text}" if result.is_error else text


def results_as_text(messages: list[Message]) -> list[Message]:
    """The messages for providers whose tool results are text only: images follow in a user turn."""
    return _move_images_behind(messages, _result_as_text)


def answers_as_text(messages: list[Message]) -> list[Message]:
    """The messages for providers that take no images in assistant turns: images follow in a user turn."""
    return _move_images_behind(messages, _answer_as_text)


def _move_images_behind(
    messages: list[Message], in_words: Callable[[Message], tuple[Message, Sequence[Part]]]
) -> list[Message]:
    result: list[Message] = []
    pictures: list[Part] = []
    for message in messages:
        if pictures and message.role != "tool":  # results must follow their calls directly
            result.append(Message("user", pictures))
            pictures = []
        rest, images = in_words(message)
        pictures += images
        if rest.parts or not images:
            result.append(rest)
    return [*result, Message("user", pictures)] if pictures else result


def split_results(message: Message) -> tuple[list[ToolResult], list[Part]]:
    """A message's tool results, which many providers take as separate messages, and its other parts."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    return results, [part for part in message.parts if not isinstance(part, ToolResult)]


def _result_as_text(message: Message) -> tuple[Message, Sequence[Part]]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    images = [part for result in results for part in result.parts if not isinstance(part, Text)]
    parts = [
        replace(part, parts=[inner for inner in part.parts if isinstance(inner, Text)])
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    ]
    return (replace(message, parts=parts) if images else message), images


def _answer_as_text(message: Message) -> tuple[Message, Sequence[Part]]:
    pictures = [part for part in message.parts if isinstance(part, Image)] if message.role == "assistant" else []
    rest: list[Part] = [part for part in message.parts if not isinstance(part, Image)]
    return (replace(message, parts=rest) if pictures else message), pictures


def function_of(tool: Tool) -> JsonObject:
    """A tool in OpenAI's shape, with `parameters` even if there are none."""
    function: JsonObject = {"name": tool.name, "parameters": tool.schema or {"type": "object", "properties": {}}}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def read_function_call(call: JsonObject, call_id: str, *seed: str) -> ToolCall:
    """A tool call in OpenAI's shape. If it has no id, one is derived from the seed and the call."""
    function = as_dict(call.get("function"))
    name, arguments = as_text(function.get("name")), arguments_text(function.get("arguments"))
    return ToolCall(call_id or derived_call_id(*seed, name, arguments), name, arguments)


def normalise_reason(reasons: Mapping[str, FinishReason], reason: str, *, called: bool = False) -> FinishReason:
    """A finish reason normalised by a table. An unknown one is OTHER, never STOP.

    `called`: the model has made tool calls; some providers then report a stop.
    """
    if not reason:
        return FinishReason.UNKNOWN
    normalised = reasons.get(reason) or FinishReason.OTHER
    return FinishReason.TOOL if called and normalised == FinishReason.STOP else normalised


def arguments_object(call: ToolCall) -> JsonObject:
    """A call's arguments as an object. Raises ValidationError if they are not a JSON object."""
    value = exact_json(call.arguments) if call.arguments.strip() else {}
    if not isinstance(value, dict):
        raise ValidationError(f"messages: the arguments of the tool call {call.id!r} must be a JSON object.")
    return value


def arguments_text(value: object) -> str:
    """A call's arguments as JSON text; providers send a text or an object."""
    if isinstance(value, str):
        return value
    return "" if value is None else dump_value(value).decode()


def exact_json(text: str) -> Any:
    """The JSON value in a text, with exact integers; None for invalid JSON, lone surrogates or too much depth."""
    try:
        value = json.loads(text, parse_constant=_no_json)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # fails for half a surrogate pair
    except (ValueError, RecursionError):
        return None
    return None if len(text) > 2 * MAX_DEPTH and is_deeper(value, MAX_DEPTH) else value


def derived_call_id(*seed: str) -> str:
    """An id for a call without one: the same for the same seed, and valid in every format."""
    return f"call_{blake2b(chr(0).join(seed).encode(), digest_size=12).hexdigest()}"


def check_stop_count(chat: Chat, most: int) -> None:
    """Raise ValidationError if there are more stop sequences than the provider takes."""
    if len(chat.stop) > most:
        raise ValidationError(f"stop must hold at most {most} sequences for this provider.")


def require_texts(embedding: Embedding) -> list[str]:
    """The texts to embed. Raises ValidationError for token ids, which are valid for one tokeniser only."""
    texts = [text for text in embedding.inputs if isinstance(text, str)]
    if len(texts) != len(embedding.inputs):
        raise ValidationError("input must be text: token ids are only valid for the tokeniser that they come from.")
    return texts


def path_segment(name: str) -> str:
    """A model's name as one segment of a path. Raises ValidationError for "." and "..", which would change the path."""
    if name in (".", ".."):
        raise ValidationError(f"model: {name!r} cannot be part of a path.")
    return quote(name, safe="")


def unsupported_part(part: Part) -> ValidationError:
    """The error for a part that the provider does not support."""
    kind = NOUNS.get(type(part), "this")
    if isinstance(part, Verbatim):
        kind = f"a part of the type {part.value.get('type')!r}"
    return ValidationError(f"messages: {kind} cannot be sent to this provider.")


def _no_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
