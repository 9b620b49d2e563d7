"""OpenAI's chat completions as clients write them (openai-openapi, August 2026), with common extensions."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import fields
from gateway_project.work.doors.fields import invalid_field, optional, required
from gateway_project.work.doors.openai.chat_response import ChatWriter, write_reply_body
from gateway_project.work.doors.openai.door import error_event
from gateway_project.work.doors.openai.tools import read_tools
from providers.formats.dialect import Dialect, StreamWriter, WorkRequest
from providers.formats.neutral.chat import Chat, OutputFormat, OutputKind, Thinking
from providers.formats.neutral.messages import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.neutral.reply import Reply
from providers.formats.openai.request import DIALECT
from providers.formats.openai.stream import stream_produced, stream_text

# What a message's content, or the result of a tool, may consist of.
ContentPart: TypeAlias = Text | Image | File | Refusal | Verbatim
ResultPart: TypeAlias = Text | Image | File | Verbatim

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
AUDIO_TYPES = {"mp3": "audio/mpeg"}  # every other format is named like its media type
DATA = "data:"
MEDIA_TYPES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"}  # usual misspellings

# Parameters that are read by themselves: the field of Chat and the check of each.
# The last of two with the same meaning takes precedence.
PARAMETERS: dict[str, tuple[str, fields.Check[object]]] = {
    "max_tokens": ("max_tokens", fields.integer),
    "max_completion_tokens": ("max_tokens", fields.integer),
    "temperature": ("temperature", fields.number),
    "top_p": ("top_p", fields.number),
    "top_k": ("top_k", fields.integer),
    "stop": ("stop", fields.texts),
    "seed": ("seed", fields.integer),
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
    output_bounds = ("max_tokens", "max_completion_tokens")
    conversation = "messages"

    def read_chat(self, body: JsonObject) -> Chat:
        chat = Chat(source=self.name)
        names: dict[str, str] = {}
        for number, message in enumerate(required(body, "messages", _messages, "")):
            chat.messages.append(read_message(message, f"messages[{number}]", names))
        fields.read_parameters(chat, body, PARAMETERS)
        chat.extra = fields.unknown_parameters(body, READ)
        read_tools(chat, body, nested=True)
        _read_output(chat)
        if effort := optional(body, "reasoning_effort", fields.text, ""):
            chat.thinking = Thinking(effort=effort)
        return chat

    def write_reply(self, work: WorkRequest, reply: Reply) -> bytes:
        return write_reply_body(work, reply)

    def writer(self, work: WorkRequest) -> StreamWriter:
        return ChatWriter(work)

    def text(self, events: bytes) -> str:
        return stream_text(events)

    def generated_text(self, events: bytes) -> str:
        return stream_produced(events)

    def error_event(self, work: WorkRequest, error: GatewayError) -> bytes:
        return error_event(error)


# --- Messages ---


def _messages(value: object, where: str) -> list[JsonObject]:
    if type(value) is not list or not value or not all(type(item) is dict for item in value):
        raise invalid_field(where, "a non-empty list of messages")
    return value


def read_message(message: JsonObject, where: str, names: dict[str, str]) -> Message:
    """One message; `names` has the names of tools by call id, as far as the conversation has been read."""
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        raise invalid_field(f"{where}.role", f"one of {', '.join(ROLES)}")
    name = optional(message, "name", fields.text, where, "")
    if role == "tool":
        return Message("tool", [_tool_result(message, where, names)])
    parts: list[Part] = [*_content(message, where, may_be_null=role == "assistant")]
    if role == "assistant":
        if not message.get("content"):
            parts += _read_transcript(message, where)
        old_call = optional(message, "function_call", fields.mapping, where)
        if old_call is not None and not message.get("tool_calls"):  # some servers send the same call as both
            parts.append(Verbatim({"type": "function_call", **old_call}, DIALECT))
        thoughts = _read_reasoning(message, where)
        parts += _pictures(message, where, thoughts)
        parts = [*thoughts, *parts]
        if refusal := optional(message, "refusal", fields.text, where):
            parts.append(Refusal(refusal))
        for number, call in enumerate(optional(message, "tool_calls", fields.items, where, [])):
            parts.append(_tool_call(call, f"{where}.tool_calls[{number}]", names))
    return Message(ROLES[role], parts, name)


def _read_transcript(message: JsonObject, where: str) -> list[Part]:
    """The transcript of what the model has said; without one, a part that only its provider knows."""
    sound = optional(message, "audio", fields.mapping, where)
    if sound is None:
        return []
    transcript = optional(sound, "transcript", fields.text, f"{where}.audio", "")
    return [Text(transcript)] if transcript else [Verbatim({"type": "audio", **sound}, DIALECT)]


def _content(message: JsonObject, where: str, *, may_be_null: bool) -> list[ContentPart]:
    content, where = message.get("content"), f"{where}.content"
    if type(content) is str:
        return [Text(content)]
    if content is None and may_be_null:
        return []
    if type(content) is not list or not all(type(part) is dict for part in content):
        raise invalid_field(where, "a string or a list of parts")
    return [_part(part, f"{where}[{number}]") for number, part in enumerate(content)]


def _part(part: JsonObject, where: str) -> ContentPart:
    kind = required(part, "type", fields.non_empty, where)
    read = PARTS.get(kind)
    return read(part, where) if read else Verbatim(part, DIALECT)


def _text(part: JsonObject, where: str) -> Text:
    return Text(required(part, "text", fields.text, where), optional(part, "cache_control", fields.mapping, where))


def _image(part: JsonObject, where: str) -> Image:
    value, where_url = required(part, "image_url", fields.mapping, where), f"{where}.image_url"
    url = required(value, "url", fields.non_empty, where_url)
    media_type, data = split_data_url(url, f"{where_url}.url")
    detail = optional(value, "detail", fields.text, where_url, "")
    cache = optional(part, "cache_control", fields.mapping, where)
    return Image("" if data else url, data, media_type, detail, cache)


def _audio(part: JsonObject, where: str) -> File:
    value, where = required(part, "input_audio", fields.mapping, where), f"{where}.input_audio"
    kind = required(value, "format", fields.non_empty, where)
    return File(required(value, "data", fields.non_empty, where), AUDIO_TYPES.get(kind, f"audio/{kind}"))


def _file(part: JsonObject, where: str) -> File:
    value, where = required(part, "file", fields.mapping, where), f"{where}.file"
    name = optional(value, "filename", fields.text, where, "")
    if file_id := optional(value, "file_id", fields.text, where, ""):
        return File(name=name, id=file_id)
    content = required(value, "file_data", fields.non_empty, where)
    media_type, data = split_data_url(content, f"{where}.file_data")
    return File(data or content, media_type, name)


def _refusal(part: JsonObject, where: str) -> Refusal:
    return Refusal(required(part, "refusal", fields.text, where))


PARTS: dict[str, Callable[[JsonObject, str], ContentPart]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
    "refusal": _refusal,
}


def split_data_url(url: str, where: str) -> tuple[str, str]:
    """Media type and base64 data of a data URL; two empty strings for any other URL."""
    if url[:5].lower() != DATA:
        return "", ""
    about, comma, data = url[5:].partition(",")
    media_type, _, options = about.partition(";")
    if not comma or not data or ";base64;" not in f";{options};":
        raise invalid_field(where, "a URL, or data:TYPE;base64,…")
    media_type = media_type.lower()
    return MEDIA_TYPES.get(media_type, media_type), data


def _pictures(message: JsonObject, where: str, thoughts: list[Reasoning]) -> list[Part]:
    """The model's pictures as chat_response.py writes them, each with its signature, which follows the thoughts."""
    images = optional(message, "images", fields.items, where, [])
    pictures: list[list[Part]] = [[_image(image, f"{where}.images[{n}]")] for n, image in enumerate(images)]
    for picture in reversed(pictures):
        if thoughts and thoughts[-1].signature and not thoughts[-1].text:
            picture.append(thoughts.pop())
    return [part for picture in pictures for part in picture]


def _tool_call(call: JsonObject, where: str, names: dict[str, str]) -> Part:
    if call.get("type", "function") != "function":
        return Verbatim(call, DIALECT)
    function = required(call, "function", fields.mapping, where)
    call_id, name = (
        required(call, "id", fields.non_empty, where),
        required(function, "name", fields.non_empty, f"{where}.function"),
    )
    names[call_id] = name
    arguments = optional(function, "arguments", fields.text, f"{where}.function", "")
    return ToolCall(call_id, name, arguments, _signature(call))


def _signature(call: JsonObject) -> str:
    extra = call.get("extra_content")
    google = extra.get("google") if type(extra) is dict else None
    signature = google.get("thought_signature") if type(google) is dict else None
    return signature if type(signature) is str else ""


def _tool_result(message: JsonObject, where: str, names: dict[str, str]) -> ToolResult:
    call_id = required(message, "tool_call_id", fields.non_empty, where)
    parts = result_parts(_content(message, where, may_be_null=False))
    cache = optional(message, "cache_control", fields.mapping, where)
    return ToolResult(call_id, parts, names.get(call_id, ""), cache=cache)


def result_parts(parts: Iterable[ContentPart]) -> list[ResultPart]:
    """The parts of a tool's result: a tool cannot refuse, so a refusal becomes text."""
    return [Text(part.text) if isinstance(part, Refusal) else part for part in parts]


def _read_reasoning(message: JsonObject, where: str) -> list[Reasoning]:
    if details := optional(message, "reasoning_details", fields.items, where):
        return _read_reasoning_details(details, f"{where}.reasoning_details")
    thought = optional(message, "reasoning_content", fields.text, where) or optional(
        message, "reasoning", fields.text, where
    )
    return [Reasoning(thought)] if thought else []


def _read_reasoning_details(details: list[JsonObject], where: str) -> list[Reasoning]:
    """Thoughts with their signatures; pieces of a stream that the client has only collected are joined."""
    thoughts: dict[tuple[str, int], Reasoning] = {}
    pieces: dict[tuple[str, int], tuple[list[str], list[str]]] = {}  # of text and data: joined once, there may be many
    for number, detail in enumerate(details):
        here = f"{where}[{number}]"
        kind, index = detail.get("type"), detail.get("index", -number - 1)
        if type(kind) is not str or type(index) is not int:
            raise invalid_field(here, "an object with a type; its index, if any, must be a whole number")
        key = kind, index
        thought, (texts, data) = thoughts.setdefault(key, Reasoning()), pieces.setdefault(key, ([], []))
        texts.append(optional(detail, "text", fields.text, here) or optional(detail, "summary", fields.text, here, ""))
        data.append(optional(detail, "data", fields.text, here, ""))
        thought.signature = optional(detail, "signature", fields.text, here, thought.signature)
        thought.source = optional(detail, "format", fields.text, here, thought.source)
        thought.id = optional(detail, "id", fields.text, here, thought.id)
    for key, thought in thoughts.items():
        thought.text, thought.data = ("".join(some) for some in pieces[key])
    return list(thoughts.values())


# --- Parameters ---


def _read_output(chat: Chat) -> None:
    """The response format; one of an unknown type stays an unknown parameter."""
    value = chat.extra.get("response_format")
    if value is None:
        return
    kind = required(fields.mapping(value, "response_format"), "type", fields.non_empty, "response_format")
    if kind == "json_object":
        chat.output = OutputFormat(OutputKind.JSON)
    elif kind == "json_schema":
        chat.output = _schema(required(value, "json_schema", fields.mapping, "response_format"))
    elif kind != "text":
        return
    del chat.extra["response_format"]


def _schema(value: JsonObject) -> OutputFormat:
    where = "response_format.json_schema"
    return OutputFormat(
        OutputKind.SCHEMA,
        optional(value, "schema", fields.mapping, where),
        required(value, "name", fields.non_empty, where),
        optional(value, "strict", fields.boolean, where),
        optional(value, "description", fields.text, where, ""),
    )
