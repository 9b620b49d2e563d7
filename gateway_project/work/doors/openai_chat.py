"""OpenAI's chat completions as clients write them (openai-openapi, August 2026), and what became usual around them.

Reasoning, which that API does not show, is written as `reasoning_content` (DeepSeek, LiteLLM, the AI SDK and most
coding agents read it) and with its proofs in `reasoning_details` (OpenRouter): a client that sends the message back
as it came carries them on. A signature of a call lies where Google's own OpenAI face has it: `extra_content`.
"""

from collections.abc import Callable
from typing import Any

from gateway_project.errors import GatewayError
from gateway_project.work.doors import fields
from gateway_project.work.doors.fields import given, needed, wrong
from gateway_project.work.doors.openai import error_event
from providers.formats.base import Dialect, StreamWriter, WorkRequest, dumped
from providers.formats.neutral import (
    Began,
    CallBegan,
    CallDelta,
    Chat,
    Delta,
    File,
    Finished,
    Image,
    Message,
    OutputFormat,
    Part,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    Reply,
    Text,
    TextDelta,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Verbatim,
)
from providers.formats.openai_reply import stream_text
from providers.formats.openai_request import DIALECT, image_url, written_call, written_thought
from providers.formats.translated import TOOLS
from providers.formats.usage import Usage

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool": "tool_calls",
    "filter": "content_filter",
    "error": "error",  # as OpenRouter writes it
}
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

    def chat(self, body: dict[str, Any]) -> Chat:
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

    def reply(self, work: WorkRequest, reply: Reply) -> bytes:
        choice = {
            "index": 0,
            "message": _written_message(reply),
            "logprobs": None,
            "finish_reason": finish_reason(reply.finish_reason, reply.provider_finish_reason),
        }
        body = {
            "id": reply.id or f"chatcmpl-{work.id}",
            "object": "chat.completion",
            "created": work.created,
            "model": reply.model or work.model,
            "choices": [choice],
        }
        if reply.usage is not None:
            body["usage"] = usage_body(reply.usage)
        return dumped(body)

    def writer(self, work: WorkRequest) -> StreamWriter:
        return ChatWriter(work)

    def text(self, events: bytes) -> str:
        return stream_text(events)

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
    parts: list[Part] = []
    if role == "assistant":
        parts += _reasoning(message, where)
    parts += _content(message, where, optional=role == "assistant")
    if role == "assistant":
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
    media_type, *options = about.split(";")
    if not comma or not data or "base64" not in options:
        raise wrong(where, "an address, or data:TYPE;base64,…")
    return media_type, data


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
    parts = _content(message, where, optional=False)
    cache = given(message, "cache_control", fields.mapping, where)
    return ToolResult(call_id, parts, names.get(call_id, ""), cache=cache)


def _reasoning(message: dict[str, Any], where: str) -> list[Reasoning]:
    if details := given(message, "reasoning_details", fields.items, where):
        return _detailed(details, f"{where}.reasoning_details")
    thought = given(message, "reasoning_content", fields.text, where) or given(message, "reasoning", fields.text, where)
    return [Reasoning(thought)] if thought else []


def _detailed(details: list[dict[str, Any]], where: str) -> list[Reasoning]:
    """Thoughts with their proofs; the pieces of a stream that a client has only gathered are put together."""
    found: dict[tuple[Any, Any], Reasoning] = {}
    for number, detail in enumerate(details):
        here = f"{where}[{number}]"
        key = (detail.get("type"), detail.get("index", -number - 1))
        if type(key[0]) is not str or type(key[1]) is not int:
            raise wrong(here, "an object with a type, and with a number as its index if it has one")
        thought = found.setdefault(key, Reasoning())
        thought.text += given(detail, "text", fields.text, here) or given(detail, "summary", fields.text, here, "")
        thought.data += given(detail, "data", fields.text, here, "")
        thought.signature = given(detail, "signature", fields.text, here, thought.signature)
        thought.source = given(detail, "format", fields.text, here, thought.source)
        thought.id = given(detail, "id", fields.text, here, thought.id)
    return list(found.values())


# --- Parameters are read ---


def _read_tools(chat: Chat, body: dict[str, Any]) -> None:
    for number, tool in enumerate(given(body, "tools", fields.items, "", [])):
        where = f"tools[{number}]"
        kind = _kind(tool, where)
        if kind == "function":
            chat.tools.append(_tool(tool, where))
        else:
            chat.extra.setdefault(TOOLS + kind, []).append(tool)
    choice = chat.extra.get("tool_choice")
    if type(choice) is str:
        chat.tool_choice = ToolChoice(fields.one_of("none", "auto", "required")(choice, "tool_choice"))
    elif choice is not None and fields.mapping(choice, "tool_choice").get("type") == "function":
        function = needed(choice, "function", fields.mapping, "tool_choice")
        chat.tool_choice = ToolChoice("tool", needed(function, "name", fields.filled, "tool_choice.function"))
    if chat.tool_choice is not None:
        del chat.extra["tool_choice"]


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


# --- Answers are written ---


def finish_reason(reason: str, provider_reason: str) -> str | None:
    """The reason in OpenAI's words; one that OpenAI does not know stays in the provider's, never `stop`."""
    return FINISH_REASONS.get(reason) or provider_reason or reason or None


def usage_body(usage: Usage) -> dict[str, Any]:
    """Tokens as OpenAI counts them: what was read from a cache or written into one is part of the prompt."""
    prompt, output = usage.all_input, usage.output or 0
    body: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    details = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    if any(value is not None for value in details.values()):
        body["prompt_tokens_details"] = {name: value for name, value in details.items() if value is not None}
    if usage.reasoning is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return body


def _written_message(reply: Reply) -> dict[str, Any]:
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    thoughts = [part for part in reply.parts if isinstance(part, Reasoning)]
    refusal = "".join(part.text for part in reply.parts if isinstance(part, Refusal))
    silent = (calls or refusal) and not any(isinstance(part, Text) for part in reply.parts)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if silent else reply.text,
        "refusal": refusal or None,
    }
    if thoughts:
        message["reasoning_content"] = "".join(thought.text for thought in thoughts)
        message["reasoning_details"] = [written_thought(thought, number) for number, thought in enumerate(thoughts)]
    if images := [part for part in reply.parts if isinstance(part, Image)]:
        message["images"] = [{"type": "image_url", "image_url": {"url": image_url(image)}} for image in images]
    if calls:
        message["tool_calls"] = [written_call(call) for call in calls]
    return message


class ChatWriter(StreamWriter):
    """Writes `chat.completion.chunk` events; the role comes with the first that says something.

    Until then nothing is written, so that another provider can still take over from one that fails.
    """

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._id, self._model = f"chatcmpl-{work.id}", work.model
        self._head = b""
        self._tail = b',"usage":null}\n\n' if work.wants_usage else b"}\n\n"
        self._thoughts = 0
        self._without_arguments: set[int] = set()

    def write(self, deltas: list[Delta]) -> bytes:
        return b"".join([WRITERS[type(delta)](self, delta) for delta in deltas])

    def end(self, usage: Usage | None) -> bytes:
        head = self._head or self._made_head()
        last = b""
        if self.work.wants_usage:
            body = dumped(usage_body(usage)) if usage is not None else b"null"
            last = b'%b"choices":[],"usage":%b}\n\n' % (head, body)
        return last + b"data: [DONE]\n\n"

    def _began(self, delta: Began) -> bytes:
        self._id, self._model = delta.id or self._id, delta.model or self._model
        return b""

    def _text(self, delta: TextDelta) -> bytes:
        return self._chunk({"content": delta.text})

    def _reasoning(self, delta: ReasoningDelta) -> bytes:
        self._thoughts += delta.begins or not self._thoughts
        piece: dict[str, Any] = {"reasoning_content": delta.text} if delta.text else {}
        return self._chunk(piece | {"reasoning_details": [written_thought(delta, self._thoughts - 1)]})

    def _refusal(self, delta: RefusalDelta) -> bytes:
        return self._chunk({"refusal": delta.text})

    def _call_began(self, delta: CallBegan) -> bytes:
        self._without_arguments.add(delta.index)
        call = written_call(ToolCall(delta.id, delta.name, "", delta.signature), nothing="")
        return self._chunk({"tool_calls": [{"index": delta.index, **call}]})

    def _call_delta(self, delta: CallDelta) -> bytes:
        if delta.arguments:
            self._without_arguments.discard(delta.index)
        return self._chunk({"tool_calls": [{"index": delta.index, "function": {"arguments": delta.arguments}}]})

    def _finished(self, delta: Finished) -> bytes:
        # Clients parse what they have gathered, and nothing is not JSON.
        empty = b"".join([self._call_delta(CallDelta(index, "{}")) for index in sorted(self._without_arguments)])
        return empty + self._chunk({}, finish_reason(delta.reason, delta.provider_reason))

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        if not self._head:
            self._head = self._made_head()
            delta = {"role": "assistant"} | ({} if delta else {"content": ""}) | delta
        return b'%b"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]%b' % (
            self._head,
            dumped(delta),
            b"null" if reason is None else dumped(reason),
            self._tail,
        )

    def _made_head(self) -> bytes:
        """What all chunks begin with, as far as their choices."""
        about = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self.work.created,
            "model": self._model,
        }
        return b"data: " + dumped(about)[:-1] + b","


WRITERS: dict[type, Callable[[ChatWriter, Any], bytes]] = {
    Began: ChatWriter._began,
    TextDelta: ChatWriter._text,
    ReasoningDelta: ChatWriter._reasoning,
    RefusalDelta: ChatWriter._refusal,
    CallBegan: ChatWriter._call_began,
    CallDelta: ChatWriter._call_delta,
    Finished: ChatWriter._finished,
}
