"""What several formats do with the parts of a conversation: arguments, ids, texts, and what cannot be sent."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NoReturn
from urllib.parse import quote

from gateway_project.api.strict_json import is_deeper
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import MAX_DEPTH, as_dict, as_text, dumped
from providers.formats.neutral import (
    Chat,
    Embedding,
    File,
    Image,
    Message,
    Part,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Verbatim,
)

KINDS = {Image: "an image", File: "a file", ToolCall: "a tool call", ToolResult: "a tool result"}


def text_of(parts: Sequence[Part]) -> str:
    """The words in parts, a refusal's too."""
    return "".join(part.text for part in parts if isinstance(part, Text | Refusal))


def paragraphs_of(parts: Sequence[Part]) -> str:
    """The words of a system prompt as one text: its parts are blocks of their own, whose words may not run together."""
    return "\n\n".join(part.text for part in parts if isinstance(part, Text) and part.text)


def lines_of(parts: Sequence[Part]) -> str:
    """The words of a user or a tool, whose parts are texts of their own, unlike the pieces of an answer."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def text_of_turn(role: str, parts: Sequence[Part]) -> str:
    """The words of a message, for providers that take it as one text."""
    if role == "assistant":
        return text_of(parts)
    return paragraphs_of(parts) if role == "system" else lines_of(parts)


def result_text(result: ToolResult) -> str:
    """The words of a result, for providers without a field that says that the call has failed."""
    text = lines_of(result.parts)
    return f"Error: {text}" if result.is_error else text


def results_as_text(messages: list[Message]) -> list[Message]:
    """The same conversation for providers whose results are words alone: pictures follow in a turn of the user's."""
    return _move_images_behind(messages, _result_as_text)


def answers_as_text(messages: list[Message]) -> list[Message]:
    """The same for providers that take no picture in a turn of the model's, where another model may have made some."""
    return _move_images_behind(messages, _answer_as_text)


def _move_images_behind(
    messages: list[Message], in_words: Callable[[Message], tuple[Message, Sequence[Part]]]
) -> list[Message]:
    written: list[Message] = []
    pictures: list[Part] = []
    for message in messages:
        if pictures and message.role != "tool":  # results stand right behind their calls
            written.append(Message("user", pictures))
            pictures = []
        rest, shown = in_words(message)
        pictures += shown
        if rest.parts or not shown:
            written.append(rest)
    return [*written, Message("user", pictures)] if pictures else written


def split_results(message: Message) -> tuple[list[ToolResult], list[Part]]:
    """A message's results, for providers that take each as a message of its own, and everything else in it."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    return results, [part for part in message.parts if not isinstance(part, ToolResult)]


def _result_as_text(message: Message) -> tuple[Message, Sequence[Part]]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    shown = [part for result in results for part in result.parts if not isinstance(part, Text)]
    parts = [
        replace(part, parts=[inner for inner in part.parts if isinstance(inner, Text)])
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    ]
    return (replace(message, parts=parts) if shown else message), shown


def _answer_as_text(message: Message) -> tuple[Message, Sequence[Part]]:
    pictures = [part for part in message.parts if isinstance(part, Image)] if message.role == "assistant" else []
    rest: list[Part] = [part for part in message.parts if not isinstance(part, Image)]
    return (replace(message, parts=rest) if pictures else message), pictures


def function_of(tool: Tool) -> JsonObject:
    """A tool as those write it who write like OpenAI and want to be told of parameters even where there are none."""
    function: JsonObject = {"name": tool.name, "parameters": tool.schema or {"type": "object", "properties": {}}}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def read_function_call(call: JsonObject, call_id: str, *seed: str) -> ToolCall:
    """A call as those write it who write like OpenAI; without an id it gets one made of the seed and of itself."""
    function = as_dict(call.get("function"))
    name, arguments = as_text(function.get("name")), arguments_text(function.get("arguments"))
    return ToolCall(call_id or derived_call_id(*seed, name, arguments), name, arguments)


def normalise_reason(reasons: Mapping[str, str], reason: str, *, called: bool = False) -> str:
    """A finish reason normalised by a table: one that is not in it is `other`, never `stop`.

    `called`: the model has made calls, which not every provider tells from a stop.
    """
    normalised = reasons.get(reason, "other") if reason else ""
    return "tool" if called and normalised == "stop" else normalised


def arguments_object(call: ToolCall) -> JsonObject:
    """A call's arguments for a provider that takes them as an object. Raises ValidationError where they are none."""
    value = exact_json(call.arguments) if call.arguments.strip() else {}
    if not isinstance(value, dict):
        raise ValidationError(f"messages: the arguments of the tool call {call.id!r} must be a JSON object.")
    return value


def arguments_text(value: object) -> str:
    """A call's arguments as JSON text, whichever way the provider wrote them."""
    if isinstance(value, str):
        return value
    return "" if value is None else dumped(value).decode()


def exact_json(text: str) -> Any:
    """The value in a text, integers of any size as they are; None where it is not JSON that can be written again."""
    try:
        value = json.loads(text, parse_constant=_no_json)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is no character
    except (ValueError, RecursionError):
        return None
    return None if len(text) > 2 * MAX_DEPTH and is_deeper(value, MAX_DEPTH) else value


def derived_call_id(*seed: str) -> str:
    """An id for a call that its provider gave none: the same for the same seed, and taken by every format."""
    return f"call_{blake2b(chr(0).join(seed).encode(), digest_size=12).hexdigest()}"


def check_stop_count(chat: Chat, most: int) -> None:
    """Raises ValidationError where there are more stop sequences than the provider takes."""
    if len(chat.stop) > most:
        raise ValidationError(f"stop must hold at most {most} sequences for this provider.")


def require_texts(embedding: Embedding) -> list[str]:
    """The texts to embed. Raises ValidationError for token ids: no two tokenisers agree on them."""
    texts = [text for text in embedding.inputs if isinstance(text, str)]
    if len(texts) != len(embedding.inputs):
        raise ValidationError("input must be text: token ids are only valid for the tokeniser that they come from.")
    return texts


def path_segment(name: str) -> str:
    """A model's name as one step of a path. Raises ValidationError for a name that would be two steps back."""
    if name in (".", ".."):
        raise ValidationError(f"model: {name!r} cannot be part of a path.")
    return quote(name, safe="")


def unsupported_part(part: Part) -> ValidationError:
    """The error for a part that a provider has no place for."""
    kind = KINDS.get(type(part), "this")
    if isinstance(part, Verbatim):
        kind = f"a part of the type {part.value.get('type')!r}"
    return ValidationError(f"messages: {kind} cannot be sent to this provider.")


def _no_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
