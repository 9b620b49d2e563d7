"""A neutral conversation as Bedrock's Converse takes it (botocore's bedrock-runtime, 2023-09-30, November 2026)."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.models import NO_CLAUDE, claude
from providers.formats.anthropic.request import stops_of
from providers.formats.anthropic.schema import supported_schema
from providers.formats.anthropic.thinking import SAMPLING, sampling_of
from providers.formats.ids import fitting_id
from providers.formats.neutral.chat import Chat, OutputKind, Tool, ToolMode
from providers.formats.neutral.messages import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.parts import arguments_object, unsupported_part
from providers.formats.translated import split_system
from providers.formats.turns import alternate_turns, called_tools, is_blank

INFERENCE = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP", "stop": "stopSequences"}
Block = JsonObject
NAME = "bedrock"
CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
ID_LENGTH = 24
IMAGES = ("png", "jpeg", "gif", "webp")
# By media type, or by the file name's extension.
DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
SOUNDS = {"audio/mpeg": "mp3", "audio/wav": "wav", "audio/flac": "flac", "audio/aac": "aac", "audio/ogg": "ogg"}
# White space is allowed, but not two in a row: a run of white space and forbidden characters becomes one space.
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9()\[\]-]+")
LONGEST_NAME = 200
# A result has to have content (AWS's API reference, ToolResultBlock), and a blank text is refused.
NO_OUTPUT = {"text": "(no output)"}
# Converse refuses conversations that the assistant begins, as with a greeting.
OPENING = {"text": "(The assistant begins.)"}


def system_of(chat: Chat) -> tuple[list[Block], list[Message]]:
    """The system prompt, and the turns that follow."""
    head, messages = split_system(chat)
    texts = [part for message in head for part in message.parts if isinstance(part, Text) and not is_blank(part)]
    return [block for text in texts for block in _text(text)], messages


def without_signed_thoughts(messages: list[Message]) -> list[Message]:
    """The messages without thoughts that a Claude model signed: other models refuse these."""
    return [replace(message, parts=[part for part in message.parts if not _is_signed(part)]) for message in messages]


def _is_signed(part: Part) -> bool:
    return isinstance(part, Reasoning) and bool(part.signature or part.data)


def turns_of(messages: list[Message]) -> list[Block]:
    """The messages as turns of alternating roles."""
    turns: list[Block] = [
        {"role": turn.role, "content": [block for part in turn.parts for block in _blocks(part)]}
        for turn in alternate_turns(messages, NAME)
    ]
    if turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [OPENING]})
    _name_apart([document for turn in turns for document in _documents(turn["content"])])
    return turns


def _documents(content: list[Block]) -> Iterator[Block]:
    """The documents in these blocks, and in their tool results."""
    for block in content:
        if "document" in block:
            yield block["document"]
        elif "toolResult" in block:
            yield from _documents(block["toolResult"]["content"])


def _name_apart(documents: list[Block]) -> None:
    """Number documents with the same name from the second on: AWS refuses a request that repeats a name."""
    uses: Counter[str] = Counter()
    for document in documents:
        name = document["name"]
        while uses[document["name"].lower()]:
            uses[name.lower()] += 1
            ending = f" {uses[name.lower()]}"
            document["name"] = name[: LONGEST_NAME - len(ending)].rstrip() + ending
        uses[document["name"].lower()] += 1


def _blocks(part: Part) -> list[Block]:
    return WRITERS[type(part)](part)


def _mark_cached(block: Block, cache: JsonObject | None) -> list[Block]:
    """The blocks, with a cache point of its own behind each part that ends a prompt to cache."""
    if not cache:
        return [block]
    point = {"type": "default"} | ({"ttl": cache["ttl"]} if cache.get("ttl") else {})
    return [block, {"cachePoint": point}]


def _text(part: Text) -> list[Block]:
    return _mark_cached({"text": part.text}, part.cache)


def _image(part: Image) -> list[Block]:
    if not part.data:
        raise ValidationError("messages: this provider takes images only as data:TYPE;base64,…, not as addresses.")
    kind = part.media_type.removeprefix("image/")
    if kind not in IMAGES:
        raise ValidationError(f"messages: this provider takes images of the types {', '.join(IMAGES)}.")
    return _mark_cached({"image": {"format": kind, "source": {"bytes": part.data}}}, part.cache)


def _file(part: File) -> list[Block]:
    if not part.data:
        raise ValidationError("messages: this provider takes files only as data, not as addresses or ids.")
    if part.media_type.startswith("image/"):
        return _image(Image(data=part.data, media_type=part.media_type, cache=part.cache))
    if kind := SOUNDS.get(part.media_type):
        return _mark_cached({"audio": {"format": kind, "source": {"bytes": part.data}}}, part.cache)
    kind = DOCUMENTS.get(part.media_type) or part.name.rpartition(".")[2].lower()
    if kind not in DOCUMENTS.values():
        raise ValidationError(f"messages: this provider does not take files of the type {part.media_type or kind!r}.")
    name = NOT_IN_A_NAME.sub(" ", part.name).strip()[:LONGEST_NAME].rstrip() or "document"
    return _mark_cached({"document": {"format": kind, "name": name, "source": {"bytes": part.data}}}, part.cache)


def _thought(part: Reasoning) -> list[Block]:
    if part.data:
        return [{"reasoningContent": {"redactedContent": part.data}}]
    text = {"text": part.text} | ({"signature": part.signature} if part.signature else {})
    return [{"reasoningContent": {"reasoningText": text}}]


def _call(part: ToolCall) -> list[Block]:
    call = {"toolUseId": _id(part.id), "name": part.name, "input": arguments_object(part)}
    return _mark_cached({"toolUse": call}, part.cache)


def _result(part: ToolResult) -> list[Block]:
    content = [block for piece in part.parts if not is_blank(piece) for block in _blocks(piece)]
    result: Block = {"toolUseId": _id(part.call_id), "content": content or [NO_OUTPUT]}
    if part.is_error:
        result["status"] = "error"
    return _mark_cached({"toolResult": result}, part.cache)


def _verbatim(part: Verbatim) -> list[Block]:
    if part.source != NAME:
        raise unsupported_part(part)
    return [part.value]


def _id(call_id: str) -> str:
    return fitting_id(call_id, CALL_ID, ID_LENGTH)


WRITERS: dict[type, Callable[[Any], list[Block]]] = {
    Text: _text,
    Image: _image,
    File: _file,
    Reasoning: _thought,
    ToolCall: _call,
    ToolResult: _result,
    Verbatim: _verbatim,
}


def tool_config(chat: Chat) -> Block | None:
    """The tools and the choice among them; None if there are none.

    Converse has no choice "none". Instead the tools are left out, unless the history has calls: AWS refuses those
    without tools.
    """
    calls = called_tools(chat)
    tools = (chat.tools or calls) if calls or not _is_none(chat) else []
    if not tools:
        return None
    config: Block = {"tools": [block for tool in tools for block in _tool(tool)]}
    if chat.tools and (choice := _choice(chat)):
        config["toolChoice"] = choice
    return config


def cannot_refuse_tools(chat: Chat) -> bool:
    """Whether the model must not call a tool, but the request must contain the tools."""
    return _is_none(chat) and bool(called_tools(chat))


def _is_none(chat: Chat) -> bool:
    return chat.tool_choice is not None and chat.tool_choice.mode == ToolMode.NONE


def _choice(chat: Chat) -> Block | None:
    choice = chat.tool_choice
    if choice is None or choice.mode == ToolMode.NONE:
        return None
    if choice.mode == ToolMode.TOOL:
        return {"tool": {"name": choice.name}}
    return {"any": {}} if choice.mode == ToolMode.REQUIRED else {"auto": {}}


def _tool(tool: Tool) -> list[Block]:
    spec: Block = {"name": tool.name}
    if tool.description:
        spec["description"] = tool.description
    schema = {"type": "object", **(tool.schema or {"properties": {}})}
    spec["inputSchema"] = {"json": supported_schema(schema) if tool.strict else schema}
    if tool.strict:
        spec["strict"] = True
    return _mark_cached({"toolSpec": spec}, tool.cache)


def output_config(chat: Chat, effort: str) -> Block:
    """Converse's `outputConfig`: the effort, and the JSON schema of the answer as text."""
    config: Block = {"effort": effort} if effort else {}
    if chat.output is not None and chat.output.kind == OutputKind.SCHEMA:
        text = json.dumps(supported_schema(chat.output.schema or {}), ensure_ascii=False)
        schema = {"schema": text, "name": chat.output.name}
        if chat.output.description:
            schema["description"] = chat.output.description
        config["textFormat"] = {
            "type": "json_schema",
            "structure": {"jsonSchema": {name: value for name, value in schema.items() if value}},
        }
    return config


def inference_config(chat: Chat, model: str, most: int | None) -> JsonObject:
    """Converse's `inferenceConfig`: the parameters that this model supports; `most` is the maximum of tokens."""
    unsupported = SAMPLING - sampling_of(chat, model, NAME)
    values = {theirs: getattr(chat, ours) for ours, theirs in INFERENCE.items() if ours not in unsupported}
    values |= {"maxTokens": most, "stopSequences": stops_of(chat) if is_claude(model) else chat.stop}
    return {name: value for name, value in values.items() if value not in (None, [])}


def is_claude(model: str) -> bool:
    """Whether the model is Anthropic's."""
    return claude(model, on_bedrock=True) is not NO_CLAUDE


def additional_fields(chat: Chat, model: str, thinking: JsonObject | None) -> JsonObject:
    """Converse's `additionalModelRequestFields`: parameters for which Converse has no field."""
    fields: JsonObject = {"thinking": thinking} if thinking else {}
    if "top_k" in sampling_of(chat, model, NAME):
        fields["top_k"] = chat.top_k
    return fields
