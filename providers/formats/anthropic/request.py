"""A conversation as Anthropic takes it: turns of blocks, tools and the choice among them."""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.schema import supported_schema
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
from providers.formats.parts import arguments_object, paragraphs_of, unsupported_part
from providers.formats.translated import split_system
from providers.formats.turns import alternate_turns, called_tools, is_blank

NAME = "anthropic"
SHAPE = "anthropic-messages"  # the dialect of its clients
Block = JsonObject
CALL_ID = re.compile(r"[A-Za-z0-9_-]+")
ID_LENGTH = 24
PDF = "application/pdf"
PDF_BEGINS = "JVBERi0"  # %PDF- in base64
CHOICES = {ToolMode.AUTO: "auto", ToolMode.NONE: "none", ToolMode.REQUIRED: "any"}


def system_of(chat: Chat) -> tuple[str | list[Block], list[Message]]:
    """The system prompt, as blocks where it has marks for the cache, and the turns that follow."""
    head, messages = split_system(chat)
    texts = [part for message in head for part in message.parts if isinstance(part, Text) and part.text]
    if texts and chat.extra.get("system"):
        raise ValidationError(
            "The request has two system prompts: in the field system and in messages.", field="system"
        )
    if any(text.cache for text in texts):
        return [_text(text) for text in texts], messages
    return paragraphs_of(texts), messages


def turns_of(messages: list[Message]) -> list[Block]:
    """The messages as turns of alternating roles."""
    return [
        {"role": turn.role, "content": [_block(part) for part in turn.parts]}
        for turn in alternate_turns(messages, NAME)
    ]


def _block(part: Part) -> Block:
    return WRITERS[type(part)](part)


def _mark_cached(block: Block, cache: JsonObject | None) -> Block:
    if cache:
        block["cache_control"] = cache
    return block


def _text(part: Text) -> Block:
    return _mark_cached({"type": "text", "text": part.text}, part.cache)


def _image(part: Image) -> Block:
    source = {"type": "url", "url": part.url}
    if part.data:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return _mark_cached({"type": "image", "source": source}, part.cache)


def _document(part: File) -> Block:
    if part.media_type.startswith("image/") and part.data:
        return _image(Image(data=part.data, media_type=part.media_type, cache=part.cache))
    block: Block = {"type": "document", "source": _document_source(part)}
    if part.name:
        block["title"] = part.name
    return _mark_cached(block, part.cache)


def _document_source(part: File) -> Block:
    if part.url:
        return {"type": "url", "url": part.url}
    if part.media_type == PDF or part.data.startswith(PDF_BEGINS):
        return {"type": "base64", "media_type": PDF, "data": part.data}
    if part.media_type.startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _decode_text(part.data)}
    raise ValidationError(_why_not(part))


def _why_not(part: File) -> str:
    if part.id:
        return f"Only another provider knows the file {part.id}: send its content."
    return f"This provider accepts PDF, text and images, but not {part.media_type or 'a file without a type'}."


def _decode_text(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValidationError("A file of text must be UTF-8 in base64.") from None


def _thought(part: Reasoning) -> Block:
    """A thought. Anthropic's own ones go back unchanged."""
    if part.data:
        return {"type": "redacted_thinking", "data": part.data}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _call(part: ToolCall) -> Block:
    block: Block = {"type": "tool_use", "id": _id(part.id), "name": part.name, "input": arguments_object(part)}
    return _mark_cached(block, part.cache)


def _result(part: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _id(part.call_id)}
    content = [_block(piece) for piece in part.parts if not is_blank(piece)]
    if len(content) == 1 and content[0].keys() == {"type", "text"}:
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    if part.is_error:
        block["is_error"] = True
    return _mark_cached(block, part.cache)


def _verbatim(part: Verbatim) -> Block:
    if part.source == NAME:
        return part.value
    raise unsupported_part(part)


def _id(call_id: str) -> str:
    return fitting_id(call_id, CALL_ID, ID_LENGTH)


WRITERS: dict[type, Callable[[Any], Block]] = {
    Text: _text,
    Image: _image,
    File: _document,
    Reasoning: _thought,
    ToolCall: _call,
    ToolResult: _result,
    Verbatim: _verbatim,
}


def tools_of(chat: Chat, *, more: bool) -> list[Block]:
    """The tools; if there are none, those that the history calls. `more`: the request has Anthropic's own tools."""
    return [_tool(tool) for tool in chat.tools or ([] if more else called_tools(chat))]


def _tool(tool: Tool) -> Block:
    schema = {"type": "object", **(tool.schema or {"properties": {}})}
    block: Block = {"name": tool.name, "input_schema": supported_schema(schema) if tool.strict else schema}
    if tool.description:
        block["description"] = tool.description
    if tool.strict:
        block["strict"] = True
    return _mark_cached(block, tool.cache)


def tool_choice_of(chat: Chat, *, more: bool) -> Block | None:
    """The choice of tools. Tools that are there only because the history calls them cannot be chosen."""
    if not chat.tools and not more:
        return {"type": "none"} if called_tools(chat) else None
    choice = chat.tool_choice
    if choice is None and chat.parallel_tools is not False:
        return None
    if choice is not None and choice.mode == ToolMode.TOOL:
        block: Block = {"type": "tool", "name": choice.name}
    else:
        block = {"type": CHOICES[choice.mode] if choice else "auto"}
    if chat.parallel_tools is False and block["type"] != "none":
        block["disable_parallel_tool_use"] = True
    return block


def stops_of(chat: Chat) -> list[str]:
    """The stop sequences that Claude models take: they refuse white space."""
    return [text for text in chat.stop if text.strip()]


def lost_stops(chat: Chat) -> set[str]:
    """The parameter's name if some of its sequences are lost."""
    return {"stop"} if len(stops_of(chat)) < len(chat.stop) else set()


def output_config(chat: Chat, effort: str) -> JsonObject:
    """Anthropic's `output_config`: the effort, and the JSON schema of the answer."""
    config: JsonObject = {"effort": effort} if effort else {}
    if chat.output is not None and chat.output.kind == OutputKind.SCHEMA:
        config["format"] = {"type": "json_schema", "schema": supported_schema(chat.output.schema or {})}
    return config
