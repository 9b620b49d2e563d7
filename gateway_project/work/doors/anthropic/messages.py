"""Anthropic's Messages as clients write them (anthropic-sdk-python 2.11, November 2026)."""

from collections.abc import Callable
from typing import Any

from gateway_project.errors import GatewayError, ValidationError
from gateway_project.work.doors import fields
from gateway_project.work.doors.anthropic.door import error_event
from gateway_project.work.doors.anthropic.response import CALL_SIGNED, MessagesWriter, reply_body, stream_reader
from gateway_project.work.doors.fields import given, needed, wrong
from providers.formats.anthropic.blocks import SHAPE, SOURCE, opened
from providers.formats.base import Dialect, StreamWriter, WorkRequest
from providers.formats.json_values import as_dict, dumped
from providers.formats.neutral import (
    Chat,
    File,
    Image,
    Message,
    OutputFormat,
    Part,
    Reasoning,
    Reply,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Verbatim,
)
from providers.formats.translated import TOOLS_PREFIX

# The parameters that stand for themselves: by their name, the field of Chat and what they have to be.
PARAMETERS: dict[str, tuple[str, fields.Check]] = {
    "max_tokens": ("max_tokens", fields.whole),
    "temperature": ("temperature", fields.number),
    "top_p": ("top_p", fields.number),
    "top_k": ("top_k", fields.whole),
    "stop_sequences": ("stop", fields.texts),
}
READ = frozenset(
    {
        *("model", "messages", "stream", "system", "tools", "tool_choice", "thinking"),
        *("output_config", "output_format"),
        *PARAMETERS,
    }
)
ROLES = ("user", "assistant", "system")
CHOICES = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}
CITATIONS = "document.citations"
FUNCTIONS = (None, "custom")  # types of tools that the client describes itself


class AnthropicMessages(Dialect):
    """`POST /v1/messages`."""

    name = SHAPE
    stateful_unsupported_code = "thread_unsupported_request"

    def read_chat(self, body: dict[str, Any]) -> Chat:
        if name := self.stateful_parameter(body):
            raise ValidationError(
                f"{name} asks for a conversation that is kept, which this provider's format has not: send the whole "
                f"conversation without {name}.",
                field=name,
                reason=self.stateful_unsupported_code,
            )
        chat = Chat(source=self.name)
        if system := given(body, "system", _system, ""):
            chat.messages.append(Message("system", system))
        names: dict[str, str] = {}
        for number, message in enumerate(needed(body, "messages", fields.items, "")):
            chat.messages += read_messages(message, f"messages[{number}]", names)
        fields.fill(chat, body, PARAMETERS)
        chat.extra = fields.rest(body, READ)
        if any(map(_wants_citations, body["messages"])):
            chat.extra[CITATIONS] = True
        _read_user(chat)
        _read_tier(chat)
        _read_tools(chat, body)
        _read_output(chat, body)
        return chat

    def stateful_parameter(self, body: dict[str, Any]) -> str:
        return "thread" if body.get("thread") is not None else ""  # the SDKs' tool runners ask for one by themselves

    def write_reply(self, work: WorkRequest, reply: Reply) -> bytes:
        return dumped(reply_body(work, reply))

    def writer(self, work: WorkRequest) -> StreamWriter:
        return MessagesWriter(work)

    def text(self, events: bytes) -> str:
        return stream_reader().text(events)

    def generated_text(self, events: bytes) -> str:
        return stream_reader().generated_text(events)

    def error_event(self, work: WorkRequest, error: GatewayError) -> bytes:
        return error_event(error, work.id)


# --- Messages are read ---


def read_messages(message: dict[str, Any], where: str, names: dict[str, str]) -> list[Message]:
    """One turn: results of calls are a message of their own; `names` are the tools' by the ids of the calls."""
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        raise wrong(f"{where}.role", f"one of {', '.join(ROLES)}")
    parts = _parts(message.get("content"), f"{where}.content")
    _name_tools(parts, names)
    results = [part for part in parts if isinstance(part, ToolResult)]
    if not results:
        return [Message(role, parts)]
    others = [part for part in parts if not isinstance(part, ToolResult)]
    return [Message("tool", results)] + ([Message(role, others)] if others else [])


def _name_tools(parts: list[Part], names: dict[str, str]) -> None:
    for part in parts:
        if isinstance(part, ToolCall):
            names[part.id] = part.name
        elif isinstance(part, ToolResult):
            part.name = names.get(part.call_id, "")


def _parts(content: Any, where: str) -> list[Part]:
    if type(content) is str:
        return [Text(content)]
    if type(content) is not list or not all(type(block) is dict for block in content):
        raise wrong(where, "a string or a list of blocks")
    parts: list[Part] = []
    for number, block in enumerate(content):
        part = read_part(block, f"{where}[{number}]")
        last = parts[-1] if parts else None
        if isinstance(part, ToolCall) and isinstance(last, Reasoning) and last.source == CALL_SIGNED:
            part.signature = parts.pop().data
        parts.append(part)
    return parts


def read_part(block: dict[str, Any], where: str) -> Part:
    """One block; one that only Anthropic knows goes to Anthropic alone."""
    read = BLOCKS.get(needed(block, "type", fields.filled, where))
    return read(block, where) if read else Verbatim(block, SOURCE)


def _cache(block: dict[str, Any], where: str) -> dict[str, Any] | None:
    return given(block, "cache_control", fields.mapping, where)


def _text(block: dict[str, Any], where: str) -> Text:
    return Text(needed(block, "text", fields.text, where), _cache(block, where))


def _image(block: dict[str, Any], where: str) -> Part:
    source, inside = needed(block, "source", fields.mapping, where), f"{where}.source"
    kind = needed(source, "type", fields.filled, inside)
    if kind == "url":
        return Image(needed(source, "url", fields.filled, inside), cache=_cache(block, where))
    if kind == "base64":
        data = needed(source, "data", fields.filled, inside)
        return Image("", data, needed(source, "media_type", fields.filled, inside), cache=_cache(block, where))
    return Verbatim(block, SOURCE)


def _document(block: dict[str, Any], where: str) -> Part:
    source, inside = needed(block, "source", fields.mapping, where), f"{where}.source"
    kind, title = needed(source, "type", fields.filled, inside), given(block, "title", fields.text, where, "")
    if kind == "url":
        url = needed(source, "url", fields.filled, inside)
        return File(url=url, media_type="application/pdf", name=title, cache=_cache(block, where))
    if kind == "base64":
        media_type = needed(source, "media_type", fields.filled, inside)
        return File(needed(source, "data", fields.filled, inside), media_type, title, cache=_cache(block, where))
    if kind == "text":  # the words themselves, which every provider takes
        return Text(needed(source, "data", fields.text, inside), _cache(block, where))
    return Verbatim(block, SOURCE)


def _thinking(block: dict[str, Any], where: str) -> Reasoning:
    source, signature = opened(given(block, "signature", fields.text, where, ""))
    return Reasoning(needed(block, "thinking", fields.text, where), signature, source=source)


def _redacted(block: dict[str, Any], where: str) -> Reasoning:
    source, data = opened(needed(block, "data", fields.text, where))
    return Reasoning(data=data, source=source)


def _call(block: dict[str, Any], where: str) -> ToolCall:
    arguments = dumped(needed(block, "input", fields.mapping, where)).decode()
    name = needed(block, "name", fields.filled, where)
    return ToolCall(needed(block, "id", fields.filled, where), name, arguments, cache=_cache(block, where))


def _result(block: dict[str, Any], where: str) -> ToolResult:
    content = block.get("content")
    return ToolResult(
        needed(block, "tool_use_id", fields.filled, where),
        [] if content is None else _parts(content, f"{where}.content"),
        is_error=given(block, "is_error", fields.boolean, where, False),
        cache=_cache(block, where),
    )


BLOCKS: dict[str, Callable[[dict[str, Any], str], Part]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _call,
    "tool_result": _result,
}


def _wants_citations(message: dict[str, Any]) -> bool:
    """Whether places in a document are to be cited, for which other shapes have no word."""
    content = message.get("content")
    documents = (block for block in content if block.get("type") == "document") if type(content) is list else ()
    return any(as_dict(document.get("citations")).get("enabled") is True for document in documents)


# --- Parameters are read ---


def _system(value: Any, where: str) -> list[Part]:
    parts = _parts(value, where)
    if not all(isinstance(part, Text) for part in parts):
        raise wrong(where, "a string or a list of text blocks")
    return parts


def _read_user(chat: Chat) -> None:
    metadata = chat.extra.get("metadata")
    if metadata is not None and fields.mapping(metadata, "metadata").keys() <= {"user_id"}:
        chat.user = given(metadata, "user_id", fields.text, "metadata", "")
        del chat.extra["metadata"]


def _read_tier(chat: Chat) -> None:
    """Where nothing is paid for haste: OpenAI's parameter has the same name, and another word for it."""
    if chat.extra.get("service_tier") == "standard_only":
        chat.extra["service_tier"] = "default"


def _read_tools(chat: Chat, body: dict[str, Any]) -> None:
    for number, tool in enumerate(given(body, "tools", fields.items, "", [])):
        where = f"tools[{number}]"
        kind = given(tool, "type", fields.filled, where)
        if kind in FUNCTIONS:
            chat.tools.append(_tool(tool, where))
        else:
            chat.extra.setdefault(TOOLS_PREFIX + kind, []).append(tool)
    if choice := given(body, "tool_choice", fields.mapping, ""):
        kind = needed(choice, "type", fields.one_of(*CHOICES), "tool_choice")
        name = needed(choice, "name", fields.filled, "tool_choice") if kind == "tool" else ""
        chat.tool_choice = ToolChoice(CHOICES[kind], name)
        if given(choice, "disable_parallel_tool_use", fields.boolean, "tool_choice"):
            chat.parallel_tools = False


def _tool(tool: dict[str, Any], where: str) -> Tool:
    return Tool(
        needed(tool, "name", fields.filled, where),
        given(tool, "description", fields.text, where, ""),
        needed(tool, "input_schema", fields.mapping, where),
        given(tool, "strict", fields.boolean, where),
        _cache(tool, where),
    )


def _read_output(chat: Chat, body: dict[str, Any]) -> None:
    config = given(body, "output_config", fields.mapping, "", {})
    chat.thinking = _thoughts(
        given(body, "thinking", fields.mapping, "", {}), given(config, "effort", fields.text, "output_config", "")
    )
    output, where = given(config, "format", fields.mapping, "output_config"), "output_config.format"
    if not output:  # as it was called in its beta; LiteLLM still does
        output, where = given(body, "output_format", fields.mapping, ""), "output_format"
    if output:
        needed(output, "type", fields.one_of("json_schema"), where)
        chat.output = OutputFormat("schema", needed(output, "schema", fields.mapping, where), "answer", strict=True)
    if others := {f"output_config.{name}": config[name] for name in config.keys() - {"effort", "format"}}:
        chat.extra |= others


def _thoughts(thinking: dict[str, Any], effort: str) -> Thinking | None:
    if not thinking:
        return Thinking(effort) if effort else None
    kind = needed(thinking, "type", fields.filled, "thinking")
    if kind == "disabled":
        return Thinking(enabled=False)
    budget = needed(thinking, "budget_tokens", fields.positive, "thinking") if kind == "enabled" else None
    return Thinking(effort, budget, enabled=True)
