"""Anthropic's Messages as clients write them (anthropic-sdk-python 2.11, November 2026)."""

from collections.abc import Callable

from gateway_project.errors import GatewayError, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import fields
from gateway_project.work.doors.anthropic.door import error_event
from gateway_project.work.doors.anthropic.response import CALL_SIGNED, MessagesWriter, reply_body, stream_reader
from gateway_project.work.doors.fields import invalid_field, optional, required
from providers.formats.anthropic.foreign import read_signature
from providers.formats.anthropic.request import NAME, SHAPE
from providers.formats.dialect import Dialect, StreamWriter, WorkRequest
from providers.formats.json_values import as_dict, dump_value
from providers.formats.neutral.chat import Chat, OutputFormat, OutputKind, Thinking, Tool, ToolChoice, ToolMode
from providers.formats.neutral.messages import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.neutral.reply import Reply
from providers.formats.translated import TOOLS_PREFIX

# Parameters that are read by themselves: the field of Chat and the check of each.
PARAMETERS: dict[str, tuple[str, fields.Check[object]]] = {
    "max_tokens": ("max_tokens", fields.integer),
    "temperature": ("temperature", fields.number),
    "top_p": ("top_p", fields.number),
    "top_k": ("top_k", fields.integer),
    "stop_sequences": ("stop", fields.texts),
}
READ = frozenset(
    {
        *("model", "messages", "stream", "system", "tools", "tool_choice", "thinking"),
        *("output_config", "output_format"),
        *PARAMETERS,
    }
)
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
CHOICES = {"auto": ToolMode.AUTO, "any": ToolMode.REQUIRED, "none": ToolMode.NONE, "tool": ToolMode.TOOL}
CITATIONS, CONTEXT = "document.citations", "document.context"  # of documents, which other shapes cannot express
# The members of a tool that are translated, or only describe how Anthropic caches and sends it.
TOOL_MEMBERS = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}
)
CUSTOM = "custom"  # the type of tools that the client describes itself; they may have none


class AnthropicMessages(Dialect):
    """`POST /v1/messages`."""

    name = SHAPE
    output_bounds = ("max_tokens",)
    conversation = "messages"
    stateful_unsupported_code = "thread_unsupported_request"

    def read_chat(self, body: JsonObject) -> Chat:
        if name := self.stateful_parameter(body):
            raise ValidationError(
                f"{name} asks for a stored conversation, which this provider's format does not support. "
                f"Send the whole conversation without {name}.",
                field=name,
                reason=self.stateful_unsupported_code,
            )
        chat = Chat(source=self.name)
        if system := optional(body, "system", _system, ""):
            chat.messages.append(Message("system", system))
        names: dict[str, str] = {}
        for number, message in enumerate(required(body, "messages", fields.items, "")):
            chat.messages += read_messages(message, f"messages[{number}]", names)
        fields.read_parameters(chat, body, PARAMETERS)
        chat.extra = fields.unknown_parameters(body, READ)
        documents = [document for message in body["messages"] for document in _documents(message)]
        if any(as_dict(document.get("citations")).get("enabled") is True for document in documents):
            chat.extra[CITATIONS] = True
        if any(document.get("context") and not _is_text(document) for document in documents):
            chat.extra[CONTEXT] = True
        _read_user(chat)
        _read_tier(chat)
        _read_tools(chat, body)
        _read_output(chat, body)
        return chat

    def stateful_parameter(self, body: JsonObject) -> str:
        return "thread" if body.get("thread") is not None else ""  # the SDKs' tool runners ask for one by themselves

    def write_reply(self, work: WorkRequest, reply: Reply) -> bytes:
        return dump_value(reply_body(work, reply))

    def writer(self, work: WorkRequest) -> StreamWriter:
        return MessagesWriter(work)

    def text(self, events: bytes) -> str:
        return stream_reader().text(events)

    def generated_text(self, events: bytes) -> str:
        return stream_reader().generated_text(events)

    def error_event(self, work: WorkRequest, error: GatewayError) -> bytes:
        return error_event(error, work.id)


# --- Messages ---


def read_messages(message: JsonObject, where: str, names: dict[str, str]) -> list[Message]:
    """One turn; results of calls become a message of their own. `names` has the names of tools by call id."""
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        raise invalid_field(f"{where}.role", f"one of {', '.join(ROLES)}")
    parts = _parts(message.get("content"), f"{where}.content")
    _name_tools(parts, names)
    results = [part for part in parts if isinstance(part, ToolResult)]
    if not results:
        return [Message(ROLES[role], parts)]
    others: list[Part] = [part for part in parts if not isinstance(part, ToolResult)]
    return [Message("tool", [*results]), *([Message(ROLES[role], others)] if others else [])]


def _name_tools(parts: list[Part], names: dict[str, str]) -> None:
    for part in parts:
        if isinstance(part, ToolCall):
            names[part.id] = part.name
        elif isinstance(part, ToolResult):
            part.name = names.get(part.call_id, "")


def _parts(content: object, where: str) -> list[Part]:
    if type(content) is str:
        return [Text(content)]
    if type(content) is not list or not all(type(block) is dict for block in content):
        raise invalid_field(where, "a string or a list of blocks")
    parts: list[Part] = []
    for number, block in enumerate(content):
        part = read_part(block, f"{where}[{number}]")
        last = parts[-1] if parts else None
        if isinstance(part, ToolCall) and isinstance(last, Reasoning) and last.source == CALL_SIGNED:
            part.signature = last.data
            parts.pop()
        parts.append(part)
    return parts


def read_part(block: JsonObject, where: str) -> Part:
    """One block; a block that only Anthropic knows is sent to Anthropic alone."""
    read = BLOCKS.get(required(block, "type", fields.non_empty, where))
    return read(block, where) if read else Verbatim(block, NAME)


def _cache(block: JsonObject, where: str) -> JsonObject | None:
    return optional(block, "cache_control", fields.mapping, where)


def _text(block: JsonObject, where: str) -> Text:
    return Text(required(block, "text", fields.text, where), _cache(block, where))


def _image(block: JsonObject, where: str) -> Part:
    source, inside = required(block, "source", fields.mapping, where), f"{where}.source"
    kind = required(source, "type", fields.non_empty, inside)
    if kind == "url":
        return Image(required(source, "url", fields.non_empty, inside), cache=_cache(block, where))
    if kind == "base64":
        data = required(source, "data", fields.non_empty, inside)
        return Image("", data, required(source, "media_type", fields.non_empty, inside), cache=_cache(block, where))
    return Verbatim(block, NAME)


def _document(block: JsonObject, where: str) -> Part:
    source, inside = required(block, "source", fields.mapping, where), f"{where}.source"
    kind, title = required(source, "type", fields.non_empty, inside), optional(block, "title", fields.text, where, "")
    if kind == "url":
        url = required(source, "url", fields.non_empty, inside)
        return File(url=url, media_type="application/pdf", name=title, cache=_cache(block, where))
    if kind == "base64":
        media_type = required(source, "media_type", fields.non_empty, inside)
        return File(required(source, "data", fields.non_empty, inside), media_type, title, cache=_cache(block, where))
    if kind == "text":  # the words themselves, which every provider takes, after those about them
        about = title, optional(block, "context", fields.text, where, "")
        words = [text for text in (*about, required(source, "data", fields.text, inside)) if text]
        return Text("\n\n".join(words), _cache(block, where))
    return Verbatim(block, NAME)


def _thinking(block: JsonObject, where: str) -> Reasoning:
    source, signature = read_signature(optional(block, "signature", fields.text, where, ""))
    return Reasoning(required(block, "thinking", fields.text, where), signature, source=source)


def _redacted_thinking(block: JsonObject, where: str) -> Reasoning:
    source, data = read_signature(required(block, "data", fields.text, where))
    return Reasoning(data=data, source=source)


def _call(block: JsonObject, where: str) -> ToolCall:
    arguments = dump_value(required(block, "input", fields.mapping, where)).decode()
    name = required(block, "name", fields.non_empty, where)
    return ToolCall(required(block, "id", fields.non_empty, where), name, arguments, cache=_cache(block, where))


def _result(block: JsonObject, where: str) -> ToolResult:
    content = block.get("content")
    return ToolResult(
        required(block, "tool_use_id", fields.non_empty, where),
        [] if content is None else _parts(content, f"{where}.content"),  # type: ignore[arg-type]  # formats skip others
        is_error=optional(block, "is_error", fields.boolean, where, False),
        cache=_cache(block, where),
    )


BLOCKS: dict[str, Callable[[JsonObject, str], Part]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "thinking": _thinking,
    "redacted_thinking": _redacted_thinking,
    "tool_use": _call,
    "tool_result": _result,
}


def _documents(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return [block for block in content if block.get("type") == "document"] if type(content) is list else []


def _is_text(document: JsonObject) -> bool:
    return as_dict(document.get("source")).get("type") == "text"


# --- Parameters ---


def _system(value: object, where: str) -> list[Part]:
    parts = _parts(value, where)
    if not all(isinstance(part, Text) for part in parts):
        raise invalid_field(where, "a string or a list of text blocks")
    return parts


def _read_user(chat: Chat) -> None:
    metadata = chat.extra.get("metadata")
    if metadata is not None and fields.mapping(metadata, "metadata").keys() <= {"user_id"}:
        chat.user = optional(metadata, "user_id", fields.text, "metadata", "")
        del chat.extra["metadata"]


def _read_tier(chat: Chat) -> None:
    """Anthropic's `standard_only` is `default` for OpenAI, whose parameter has the same name."""
    if chat.extra.get("service_tier") == "standard_only":
        chat.extra["service_tier"] = "default"


def _read_tools(chat: Chat, body: JsonObject) -> None:
    for number, tool in enumerate(optional(body, "tools", fields.items, "", [])):
        where = f"tools[{number}]"
        kind = optional(tool, "type", fields.non_empty, where)
        if kind is None or kind == CUSTOM:
            chat.tools.append(_tool(tool, where))
            chat.extra |= fields.unread_members(tool, TOOL_MEMBERS, "tool")
        else:
            chat.extra.setdefault(TOOLS_PREFIX + kind, []).append(tool)
    if choice := optional(body, "tool_choice", fields.mapping, ""):
        kind = required(choice, "type", fields.one_of(*CHOICES), "tool_choice")
        name = required(choice, "name", fields.non_empty, "tool_choice") if kind == "tool" else ""
        chat.tool_choice = ToolChoice(CHOICES[kind], name)
        if optional(choice, "disable_parallel_tool_use", fields.boolean, "tool_choice"):
            chat.parallel_tools = False


def _tool(tool: JsonObject, where: str) -> Tool:
    return Tool(
        required(tool, "name", fields.non_empty, where),
        optional(tool, "description", fields.text, where, ""),
        required(tool, "input_schema", fields.mapping, where),
        optional(tool, "strict", fields.boolean, where),
        _cache(tool, where),
    )


def _read_output(chat: Chat, body: JsonObject) -> None:
    config = optional(body, "output_config", fields.mapping, "", {})
    chat.thinking = _read_thinking(
        optional(body, "thinking", fields.mapping, "", {}), optional(config, "effort", fields.text, "output_config", "")
    )
    output, where = optional(config, "format", fields.mapping, "output_config"), "output_config.format"
    if not output:  # as it was called in its beta; LiteLLM still does
        output, where = optional(body, "output_format", fields.mapping, ""), "output_format"
    if output:
        required(output, "type", fields.one_of("json_schema"), where)
        chat.output = OutputFormat(
            OutputKind.SCHEMA, required(output, "schema", fields.mapping, where), "answer", strict=True
        )
    if others := {f"output_config.{name}": config[name] for name in config.keys() - {"effort", "format"}}:
        chat.extra |= others


def _read_thinking(thinking: JsonObject, effort: str) -> Thinking | None:
    if not thinking:
        return Thinking(effort) if effort else None
    kind = required(thinking, "type", fields.non_empty, "thinking")
    if kind == "disabled":
        return Thinking(enabled=False)
    budget = required(thinking, "budget_tokens", fields.positive, "thinking") if kind == "enabled" else None
    return Thinking(effort, budget, enabled=True)
