"""OpenAI's Responses as clients write them (openai-python 3.52, November 2026): items in, items out, no stored state.

A client sends the whole conversation each time. A request for stored state (`previous_response_id`, `conversation`,
`store: true`, `background`, stored prompts and items) is refused, except by providers that speak this shape themselves.
"""

from collections.abc import Callable, Iterable

from gateway_project.errors import GatewayError, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import fields
from gateway_project.work.doors.fields import invalid_field, optional, required
from gateway_project.work.doors.openai.chat import ContentPart, result_parts, split_data_url
from gateway_project.work.doors.openai.responses_items import (
    IMAGE,
    NAME,
    ending_members,
    envelope,
    items_of,
    read_sealed,
    usage_body,
)
from gateway_project.work.doors.openai.responses_stream import ResponsesWriter
from gateway_project.work.doors.openai.tools import read_tools
from providers.formats.dialect import Dialect, StreamWriter, WorkRequest
from providers.formats.json_values import as_dict, as_list, as_text, dump_value, read_json
from providers.formats.neutral.chat import Chat, OutputFormat, OutputKind, Thinking
from providers.formats.neutral.messages import (
    File,
    Image,
    Message,
    Part,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Verbatim,
)
from providers.formats.neutral.reply import Reply
from providers.formats.openai.kept_state import names_item
from providers.formats.openai.responses import GENERATED_EVENTS
from providers.formats.sse import data_of, events_in

ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
PARAMETERS: dict[str, tuple[str, fields.Check[object]]] = {
    "max_output_tokens": ("max_tokens", fields.integer),
    "temperature": ("temperature", fields.number),
    "top_p": ("top_p", fields.number),
    "parallel_tool_calls": ("parallel_tools", fields.boolean),
    "user": ("user", fields.text),
    "safety_identifier": ("user", fields.text),
}
# Parameters that ask for stored state, each with the values that do not.
STORED_STATE: dict[str, tuple[object, ...]] = {
    "previous_response_id": (None,),
    "conversation": (None,),
    "prompt": (None,),
    "store": (None, False),
    "background": (None, False),
}
ADDRESSES = ("http://", "https://")
BINDING = ("previous_response_id", "conversation", "prompt")
REFERENCE = "item_reference"  # the AI SDK sends them unless store is false
ENCRYPTED = "reasoning.encrypted_content"  # always included
TEXT_MEMBERS = frozenset({"format", "verbosity"})
REASONING_MEMBERS = frozenset({"effort", "summary", "generate_summary"})
READ = frozenset(
    {
        *("model", "input", "instructions", "stream", "stream_options", "tools", "text", "reasoning", "metadata"),
        *PARAMETERS,
        *STORED_STATE,
    }
)


class OpenAIResponses(Dialect):
    """`POST /responses`."""

    name = NAME
    output_bounds = ("max_output_tokens",)
    conversation = "input"

    def read_chat(self, body: JsonObject) -> Chat:
        _refuse_stored(body)
        chat = Chat(source=self.name)
        if instructions := optional(body, "instructions", fields.text, ""):
            chat.messages.append(Message("system", [Text(instructions)]))
        _read_input(chat, body.get("input"))
        fields.read_parameters(chat, body, PARAMETERS)
        chat.extra = fields.unknown_parameters(body, READ)
        read_tools(chat, body, nested=False)
        _read_text(chat, body)
        _read_reasoning(chat, body)
        _drop_defaults(chat)
        return chat

    def runs_in_background(self, body: JsonObject) -> bool:
        return body.get("background") not in STORED_STATE["background"]

    def stateful_parameter(self, body: JsonObject) -> str:
        binding = next((name for name in BINDING if body.get(name) is not None), "")
        return binding or (REFERENCE if any(map(names_item, map(as_dict, as_list(body.get("input"))))) else "")

    def write_reply(self, work: WorkRequest, reply: Reply) -> bytes:
        items = items_of(work, reply)
        usage = None if reply.usage is None else usage_body(reply.usage)
        about = envelope(work, reply.id, reply.model) | {"output": items, "usage": usage}
        return dump_value(about | ending_members(reply.finish_reason, reply.provider_finish_reason))

    def writer(self, work: WorkRequest) -> StreamWriter:
        return ResponsesWriter(work)

    def text(self, events: bytes) -> str:
        values = (as_dict(read_json(data_of(event))) for event in events_in(events))
        return "".join(value["delta"] for value in values if value.get("type") == "response.output_text.delta")

    def generated_text(self, events: bytes) -> str:
        values = (as_dict(read_json(data_of(event))) for event in events_in(events))
        return "".join(
            as_text(value.get("delta")) for value in values if as_text(value.get("type")) in GENERATED_EVENTS
        )

    def error_event(self, work: WorkRequest, error: GatewayError) -> bytes:
        return ResponsesWriter(work).end_with_error(error)


def _refuse_stored(body: JsonObject) -> None:
    for name, harmless in STORED_STATE.items():
        if body.get(name) not in harmless:
            raise _not_stored(name, name)


def _not_stored(what: str, field: str) -> ValidationError:
    return ValidationError(
        f"{what} asks for a stored conversation, which this provider's format does not support. Send the whole "
        "conversation in input, with store false.",
        field=field,
    )


# --- Items ---


def _read_input(chat: Chat, value: object) -> None:
    if type(value) is str:
        chat.messages.append(Message("user", [Text(value)]))
        return
    if type(value) is not list or not all(type(item) is dict for item in value):
        raise invalid_field("input", "a string or a list of items")
    reader = ItemReader(chat.messages)
    for number, item in enumerate(value):
        reader.read(item, f"input[{number}]")
    if not chat.messages:
        raise invalid_field("input", "a string or a non-empty list of items")


class ItemReader:
    """Makes messages of items: consecutive texts, thoughts and calls of the model become one message."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._names: dict[str, str] = {}  # of tools, by the ids of their calls
        self._signatures: dict[str, str] = {}  # of calls, by their ids

    def read(self, item: JsonObject, where: str) -> None:
        kind = optional(item, "type", fields.text, where, REFERENCE if names_item(item) else "message")
        read = ITEMS.get(kind)
        if kind == REFERENCE:
            raise _not_stored(kind, where)
        if read is None:
            raise ValidationError(f"{where}: this provider does not support items of the type {kind}.", field=where)
        read(self, item, where)

    def _add_parts(self, parts: Iterable[Part]) -> None:
        if not self._messages or self._messages[-1].role != "assistant":
            self._messages.append(Message("assistant", []))
        self._messages[-1].parts += parts

    def _message(self, item: JsonObject, where: str) -> None:
        role = ROLES[required(item, "role", fields.one_of(*ROLES), where)]
        parts = _content(item.get("content"), f"{where}.content")
        if role == "assistant":
            self._add_parts(parts)
        else:
            self._messages.append(Message(role, [*parts]))

    def _call(self, item: JsonObject, where: str) -> None:
        call_id, name = (
            required(item, "call_id", fields.non_empty, where),
            required(item, "name", fields.non_empty, where),
        )
        self._names[call_id] = name
        arguments = optional(item, "arguments", fields.text, where, "")
        self._add_parts([ToolCall(call_id, name, arguments, self._signatures.get(call_id, ""))])

    def _result(self, item: JsonObject, where: str) -> None:
        call_id = required(item, "call_id", fields.non_empty, where)
        parts = result_parts(_content(item.get("output"), f"{where}.output"))
        self._messages.append(Message("tool", [ToolResult(call_id, parts, self._names.get(call_id, ""))]))

    def _image_made(self, item: JsonObject, where: str) -> None:
        result = required(item, "result", fields.non_empty, where)
        if result.startswith(ADDRESSES):
            self._add_parts([Image(result)])
        else:
            self._add_parts(
                [Image("", result, f"image/{optional(item, 'output_format', fields.text, where) or 'png'}")]
            )

    def _reasoning(self, item: JsonObject, where: str) -> None:
        texts = [
            required(text, "text", fields.text, f"{where}.{name}[{number}]")
            for name in ("summary", "content")
            for number, text in enumerate(optional(item, name, fields.items, where, []))
        ]
        content = optional(item, "encrypted_content", fields.text, where, "")
        thought, signatures = read_sealed(content, "".join(texts))
        self._signatures.update(signatures)
        if not signatures:
            self._add_parts([thought])


ITEMS: dict[str, Callable[[ItemReader, JsonObject, str], None]] = {
    "message": ItemReader._message,
    "function_call": ItemReader._call,
    "function_call_output": ItemReader._result,
    "reasoning": ItemReader._reasoning,
    IMAGE: ItemReader._image_made,
}


def _content(value: object, where: str) -> list[ContentPart]:
    if type(value) is str:
        return [Text(value)]
    if type(value) is not list or not all(type(part) is dict for part in value):
        raise invalid_field(where, "a string or a list of parts")
    return [_part(part, f"{where}[{number}]") for number, part in enumerate(value)]


def _part(part: JsonObject, where: str) -> ContentPart:
    read = PARTS.get(required(part, "type", fields.non_empty, where))
    return read(part, where) if read else Verbatim(part, NAME)


def _text(part: JsonObject, where: str) -> ContentPart:
    return Text(required(part, "text", fields.text, where))


def _refusal(part: JsonObject, where: str) -> ContentPart:
    return Refusal(required(part, "refusal", fields.text, where))


def _image(part: JsonObject, where: str) -> ContentPart:
    if file_id := optional(part, "file_id", fields.text, where, ""):
        return File(id=file_id)
    url = required(part, "image_url", fields.non_empty, where)
    media_type, data = split_data_url(url, f"{where}.image_url")
    return Image("" if data else url, data, media_type, optional(part, "detail", fields.text, where, ""))


def _file(part: JsonObject, where: str) -> ContentPart:
    name = optional(part, "filename", fields.text, where, "")
    if file_id := optional(part, "file_id", fields.text, where, ""):
        return File(name=name, id=file_id)
    if url := optional(part, "file_url", fields.text, where, ""):
        return File(name=name, url=url)
    content = required(part, "file_data", fields.non_empty, where)
    media_type, data = split_data_url(content, f"{where}.file_data")
    return File(data or content, media_type, name)


PARTS: dict[str, Callable[[JsonObject, str], ContentPart]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _file,
}


# --- Parameters ---


def _read_text(chat: Chat, body: JsonObject) -> None:
    text = optional(body, "text", fields.mapping, "", {})
    chat.extra |= fields.unread_members(text, TEXT_MEMBERS, "text")
    if verbosity := optional(text, "verbosity", fields.text, "text"):
        chat.extra["verbosity"] = verbosity
    value = optional(text, "format", fields.mapping, "text")
    if value is None:
        return
    kind = required(value, "type", fields.non_empty, "text.format")
    if kind == "json_object":
        chat.output = OutputFormat(OutputKind.JSON)
    elif kind == "json_schema":
        chat.output = _schema(value)
    elif kind != "text":
        chat.extra["text.format"] = value


def _schema(value: JsonObject) -> OutputFormat:
    where = "text.format"
    return OutputFormat(
        OutputKind.SCHEMA,
        required(value, "schema", fields.mapping, where),
        required(value, "name", fields.non_empty, where),
        optional(value, "strict", fields.boolean, where),
        optional(value, "description", fields.text, where, ""),
    )


def _read_reasoning(chat: Chat, body: JsonObject) -> None:
    """The effort; every thought comes with a summary anyway."""
    reasoning = optional(body, "reasoning", fields.mapping, "", {})
    chat.extra |= fields.unread_members(reasoning, REASONING_MEMBERS, "reasoning")
    if effort := optional(reasoning, "effort", fields.text, "reasoning"):
        chat.thinking = Thinking(effort=effort)


def _drop_defaults(chat: Chat) -> None:
    """Drop parameters whose value asks for the default."""
    if chat.extra.get("truncation") == "disabled":
        del chat.extra["truncation"]
    if set(fields.texts(chat.extra.get("include", []), "include")) <= {ENCRYPTED}:
        chat.extra.pop("include", None)
