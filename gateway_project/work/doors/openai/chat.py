"""OpenAI's chat completions as clients write them (openai-openapi, August 2026), and what became usual around them."""

from collections.abc import Callable
from typing import Any

from gateway_project.errors import GatewayError
from gateway_project.work.doors import fields
from gateway_project.work.doors.fields import given, needed, wrong
from gateway_project.work.doors.openai.chat_response import ChatWriter, written_reply
from gateway_project.work.doors.openai.door import error_event
from gateway_project.work.doors.openai.tools import take_choice
from providers.formats.base import Dialect, StreamWriter, WorkRequest
from providers.formats.neutral import (
    Chat,
    File,
    Image,
    Message,
    OutputFormat,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.openai.reply import stream_produced, stream_text
from providers.formats.openai.request import DIALECT
from providers.formats.translated import TOOLS_PREFIX

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
AUDIO_TYPES = {"mp3": "audio/mpeg"}  # every other format is named like its media type
DATA = "data:"

# The parameters that stand for themselves: by their name, the field of Chat and what they have to be.
# Of two that mean the same the last one counts.
PARAMETERS: dict[str, tuple[str, fields.Check]] = {
    "max_tokens": ("max_tokens", fields.whole),
    "max_completion_tokens": ("max_tokens", fields.whole),
    "temperature": ("temperature", fields.number),
    "top_p": ("top_p", fields.number),
    "top_k": ("top_k", fields.whole),
    "stop": ("stop", fields.texts),
    "seed": ("seed", fields.whole),
    "n": ("choices", fields.positive),
    "presence_penalty": ("presence_penalty", fields.number),
    "frequency_penalty": ("frequency_penalty", fields.number),
    "parallel_tool_calls": ("parallel_tools", fields.boolean),
    "user": ("user", fields.text),
    "safety_identifier": ("user", fields.text),
}
READ = frozenset({"model", "messages", "stream", "stream_options", "tools", "reasoning_effort", *PARAMETERS})


class OpenAIChat(Dialect):
    """`POST /chat/completions`, and what /work reads as a chat."""

    name = DIALECT

    def read_chat(self, body: dict[str, Any]) -> Chat:
        chat = Chat(source=self.name)
        names: dict[str, str] = {}
        for number, message in enumerate(needed(body, "messages", _messages, "")):
            chat.messages.append(read_message(message, f"messages[{number}]", names))
        fields.fill(chat, body, PARAMETERS)
        chat.extra = fields.rest(body, READ)
        _read_tools(chat, body)
        _read_output(chat)
        if effort := given(body, "reasoning_effort", fields.text, ""):
            chat.thinking = Thinking(effort=effort)
        return chat

    def write_reply(self, work: WorkRequest, reply: Reply) -> bytes:
        return written_reply(work, reply)

    def writer(self, work: WorkRequest) -> StreamWriter:
        return ChatWriter(work)

    def text(self, events: bytes) -> str:
        return stream_text(events)

    def generated_text(self, events: bytes) -> str:
        return stream_produced(events)

    def error_event(self, work: WorkRequest, error: GatewayError) -> bytes:
        return error_event(error)


# --- Messages are read ---


def _messages(value: Any, where: str) -> list[dict[str, Any]]:
    if type(value) is not list or not value or not all(type(item) is dict for item in value):
        raise wrong(where, "a non-empty list of messages")
    return value


def read_message(message: dict[str, Any], where: str, names: dict[str, str]) -> Message:
    """One message; `names` are the tools' names by the ids of the calls up to here."""
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        raise wrong(f"{where}.role", f"one of {', '.join(ROLES)}")
    name = given(message, "name", fields.text, where, "")
    if role == "tool":
        return Message("tool", [_tool_result(message, where, names)])
    parts = _content(message, where, optional=role == "assistant")
    if role == "assistant":
        thoughts = _reasoning(message, where)
        parts += _pictures(message, where, thoughts)
        parts = thoughts + parts
        if refusal := given(message, "refusal", fields.text, where):
            parts.append(Refusal(refusal))
        for number, call in enumerate(given(message, "tool_calls", fields.items, where, [])):
            parts.append(_tool_call(call, f"{where}.tool_calls[{number}]", names))
    return Message(ROLES[role], parts, name)


def _content(message: dict[str, Any], where: str, *, optional: bool) -> list[Part]:
    content, where = message.get("content"), f"{where}.content"
    if type(content) is str:
        return [Text(content)]
    if content is None and optional:
        return []
    if type(content) is not list or not all(type(part) is dict for part in content):
        raise wrong(where, "a string or a list of parts")
    return [_part(part, f"{where}[{number}]") for number, part in enumerate(content)]


def _part(part: dict[str, Any], where: str) -> Part:
    kind = needed(part, "type", fields.filled, where)
    read = PARTS.get(kind)
    return read(part, where) if read else Verbatim(part, DIALECT)


def _text(part: dict[str, Any], where: str) -> Text:
    return Text(needed(part, "text", fields.text, where), given(part, "cache_control", fields.mapping, where))


def _image(part: dict[str, Any], where: str) -> Image:
    value, where_url = needed(part, "image_url", fields.mapping, where), f"{where}.image_url"
    url = needed(value, "url", fields.filled, where_url)
    media_type, data = split_data_url(url, f"{where_url}.url")
    detail = given(value, "detail", fields.text, where_url, "")
    cache = given(part, "cache_control", fields.mapping, where)
    return Image("" if data else url, data, media_type, detail, cache)


def _audio(part: dict[str, Any], where: str) -> File:
    value, where = needed(part, "input_audio", fields.mapping, where), f"{where}.input_audio"
    kind = needed(value, "format", fields.filled, where)
    return File(needed(value, "data", fields.filled, where), AUDIO_TYPES.get(kind, f"audio/{kind}"))


def _file(part: dict[str, Any], where: str) -> File:
    value, where = needed(part, "file", fields.mapping, where), f"{where}.file"
    name = given(value, "filename", fields.text, where, "")
    if file_id := given(value, "file_id", fields.text, where, ""):
        return File(name=name, id=file_id)
    content = needed(value, "file_data", fields.filled, where)
    media_type, data = split_data_url(content, f"{where}.file_data")
    return File(data or content, media_type, name)


def _refusal(part: dict[str, Any], where: str) -> Refusal:
    return Refusal(needed(part, "refusal", fields.text, where))


PARTS: dict[str, Callable[[dict[str, Any], str], Part]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
    "refusal": _refusal,
}


def split_data_url(url: str, where: str) -> tuple[str, str]:
    """Media type and base64 of a data URL; two empty strings for every other address."""
    if url[:5].lower() != DATA:
        return "", ""
    about, comma, data = url[5:].partition(",")
    media_type, _, options = about.partition(";")
    if not comma or not data or ";base64;" not in f";{options};":
        raise wrong(where, "an address, or data:TYPE;base64,…")
    return media_type, data


def _pictures(message: dict[str, Any], where: str, thoughts: list[Part]) -> list[Part]:
    """The pictures that the model made, as we wrote them; each gets what signed it back from behind the thoughts."""
    images = given(message, "images", fields.items, where, [])
    pictures: list[list[Part]] = [[_image(image, f"{where}.images[{n}]")] for n, image in enumerate(images)]
    for picture in reversed(pictures):
        if thoughts and thoughts[-1].signature and not thoughts[-1].text:
            picture.append(thoughts.pop())
    return [part for picture in pictures for part in picture]


def _tool_call(call: dict[str, Any], where: str, names: dict[str, str]) -> Part:
    if call.get("type", "function") != "function":
        return Verbatim(call, DIALECT)
    function = needed(call, "function", fields.mapping, where)
    call_id, name = (
        needed(call, "id", fields.filled, where),
        needed(function, "name", fields.filled, f"{where}.function"),
    )
    names[call_id] = name
    arguments = given(function, "arguments", fields.text, f"{where}.function", "")
    return ToolCall(call_id, name, arguments, _signature(call))


def _signature(call: dict[str, Any]) -> str:
    extra = call.get("extra_content")
    google = extra.get("google") if type(extra) is dict else None
    signature = google.get("thought_signature") if type(google) is dict else None
    return signature if type(signature) is str else ""


def _tool_result(message: dict[str, Any], where: str, names: dict[str, str]) -> ToolResult:
    call_id = needed(message, "tool_call_id", fields.filled, where)
    parts = result_parts(_content(message, where, optional=False))
    cache = given(message, "cache_control", fields.mapping, where)
    return ToolResult(call_id, parts, names.get(call_id, ""), cache=cache)


def result_parts(parts: list[Part]) -> list[Part]:
    """What a tool gave: it does not refuse as a model does, its words are words."""
    return [Text(part.text) if isinstance(part, Refusal) else part for part in parts]


def _reasoning(message: dict[str, Any], where: str) -> list[Part]:
    if details := given(message, "reasoning_details", fields.items, where):
        return _detailed(details, f"{where}.reasoning_details")
    thought = given(message, "reasoning_content", fields.text, where) or given(message, "reasoning", fields.text, where)
    return [Reasoning(thought)] if thought else []


def _detailed(details: list[dict[str, Any]], where: str) -> list[Part]:
    """Thoughts with their proofs; the pieces of a stream that a client has only gathered are put together."""
    found: dict[tuple[Any, Any], Reasoning] = {}
    pieces: dict[tuple[Any, Any], tuple[list[str], list[str]]] = {}  # of text and data: joined once, there may be many
    for number, detail in enumerate(details):
        here = f"{where}[{number}]"
        key = (detail.get("type"), detail.get("index", -number - 1))
        if type(key[0]) is not str or type(key[1]) is not int:
            raise wrong(here, "an object with a type, and with a number as its index if it has one")
        thought, (texts, data) = found.setdefault(key, Reasoning()), pieces.setdefault(key, ([], []))
        texts.append(given(detail, "text", fields.text, here) or given(detail, "summary", fields.text, here, ""))
        data.append(given(detail, "data", fields.text, here, ""))
        thought.signature = given(detail, "signature", fields.text, here, thought.signature)
        thought.source = given(detail, "format", fields.text, here, thought.source)
        thought.id = given(detail, "id", fields.text, here, thought.id)
    for key, thought in found.items():
        thought.text, thought.data = ("".join(some) for some in pieces[key])
    return list(found.values())


# --- Parameters are read ---


def _read_tools(chat: Chat, body: dict[str, Any]) -> None:
    for number, tool in enumerate(given(body, "tools", fields.items, "", [])):
        where = f"tools[{number}]"
        kind = _kind(tool, where)
        if kind == "function":
            chat.tools.append(_tool(tool, where))
        else:
            chat.extra.setdefault(TOOLS_PREFIX + kind, []).append(tool)
    take_choice(chat, nested=True)


def _kind(tool: dict[str, Any], where: str) -> str:
    """A tool's type; Google's tools have none, and are named by their one field."""
    if "type" not in tool and len(tool) == 1 and "function" not in tool:
        return next(iter(tool))
    return needed(tool, "type", fields.filled, where)


def _tool(tool: dict[str, Any], where: str) -> Tool:
    function, inside = needed(tool, "function", fields.mapping, where), f"{where}.function"
    return Tool(
        needed(function, "name", fields.filled, inside),
        given(function, "description", fields.text, inside, ""),
        given(function, "parameters", fields.mapping, inside),
        given(function, "strict", fields.boolean, inside),
        given(tool, "cache_control", fields.mapping, where),
    )


def _read_output(chat: Chat) -> None:
    """The response format; of a type that nobody knows it stays a parameter that nobody knows."""
    value = chat.extra.get("response_format")
    if value is None:
        return
    kind = needed(fields.mapping(value, "response_format"), "type", fields.filled, "response_format")
    if kind == "json_object":
        chat.output = OutputFormat("json")
    elif kind == "json_schema":
        chat.output = _schema(needed(value, "json_schema", fields.mapping, "response_format"))
    elif kind != "text":
        return
    del chat.extra["response_format"]


def _schema(value: dict[str, Any]) -> OutputFormat:
    where = "response_format.json_schema"
    return OutputFormat(
        "schema",
        given(value, "schema", fields.mapping, where),
        needed(value, "name", fields.filled, where),
        given(value, "strict", fields.boolean, where),
        given(value, "description", fields.text, where, ""),
    )
