"""The request of a log entry as a chat completion that the playground can send again, and what of it is missing."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import DIALECTS, MESSAGES
from gateway_project.work.doors.openai.responses import OpenAIResponses
from gateway_project.work.log.secret_masking import MASK
from providers.formats.base import DEFAULT_OPTIONS
from providers.formats.dialect import Dialect, WorkRequest
from providers.formats.neutral.chat import Chat
from providers.formats.neutral.messages import Message, Part, ToolResult
from providers.formats.openai.format import OpenAI
from providers.formats.openai.request import messages_of
from telemetry.details import bodies_of
from telemetry.log_page.conversation import conversation
from telemetry.log_page.logged_json import logged_object
from telemetry.models import LogEntry

CHAT, RESPONSES = DIALECTS["chat"], OpenAIResponses()
# Members of a body, and types of parts of its messages, that only Anthropic's messages have.
OF_MESSAGES = {"system", "stop_sequences", "output_config"}
PARTS_OF_MESSAGES = {"tool_use", "tool_result", "image", "document", "thinking", "redacted_thinking"}
NO_PARAMETERS = {"model", "messages", "stream", "stream_options"}
NO_CONTENT = "The log does not have the content of the request."
CUT = "The log has only the beginning of the request: later messages and parameters are missing."
MASKED = "The log masks credentials: each *** in a message may have been one."
TEXT_ALONE = "The playground cannot send requests of this form. It shows only the text."


@dataclass(slots=True)
class LoggedRequest:
    """Messages and parameters in the shape of OpenAI's chat completions; `omissions` are sentences."""

    messages: list[JsonObject] = field(default_factory=list)
    parameters: JsonObject = field(default_factory=dict)
    omissions: list[str] = field(default_factory=list)


def logged_request(entry: LogEntry) -> LoggedRequest:
    """The request of a log entry."""
    body, is_whole = logged_object(bodies_of(entry.payload)[0])
    if not body or body.keys() <= {"bytes", "sha256"}:
        return LoggedRequest(omissions=[NO_CONTENT if is_whole else CUT])
    request = _read(body, entry.model)
    if not is_whole:
        request.omissions.append(CUT)
    if MASK.decode() in entry.payload:
        request.omissions.append(MASKED)
    return request


def _read(body: JsonObject, model: str) -> LoggedRequest:
    for dialect in _dialects_of(body):
        with suppress(ValidationError):
            chat = dialect.read_chat(body)
            return _keep_request(body) if dialect is CHAT else _translate_chat(chat, model, dialect)
    return _texts(body)


def _dialects_of(body: JsonObject) -> tuple[Dialect, ...]:
    """The dialects that a body may be in, the likeliest first: the log does not say at which path it came."""
    if "messages" not in body:
        return (RESPONSES,)
    tools = body.get("tools")
    is_of_messages = (
        body.keys() & OF_MESSAGES
        or PARTS_OF_MESSAGES.intersection(_types_of_parts(body["messages"]))
        or any("input_schema" in tool for tool in (tools if isinstance(tools, list) else ()) if isinstance(tool, dict))
    )
    return (MESSAGES, CHAT) if is_of_messages else (CHAT, MESSAGES)


def _keep_request(body: JsonObject) -> LoggedRequest:
    return LoggedRequest(body["messages"], _parameters(body))


def _parameters(body: JsonObject) -> JsonObject:
    return {name: value for name, value in body.items() if name not in NO_PARAMETERS}


def _types_of_parts(messages: object) -> Iterator[str]:
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and isinstance(part.get("type"), str):
                yield part["type"]


def _translate_chat(chat: Chat, model: str, dialect: Dialect) -> LoggedRequest:
    """A request in another shape, without what chat completions cannot have."""
    missing_names = sorted(chat.extra)
    for message in chat.messages:
        missing_names += [_name_of(part) for part in message.parts if not _is_written(message, part)]
        message.parts = [part for part in message.parts if _is_written(message, part)]
    chat.messages = [message for message in chat.messages if message.parts]
    work = WorkRequest("chat", model, {}, b"", dialect=dialect)
    body = OpenAI().chat_body(work, chat, model, DEFAULT_OPTIONS)
    omissions = (
        [f"Left out, because OpenAI's API does not have them: {', '.join(dict.fromkeys(missing_names))}."]
        if missing_names
        else []
    )
    return LoggedRequest(body["messages"], _parameters(body), omissions)


def _is_written(message: Message, part: Part) -> bool:
    try:
        messages_of(Chat([Message(message.role, [part])]))
    except ValidationError:
        return False
    return not isinstance(part, ToolResult) or all(_is_written(Message("user", []), inner) for inner in part.parts)


def _name_of(part: Part) -> str:
    return type(part).__name__.lower()


def _texts(body: JsonObject) -> LoggedRequest:
    """The turns of a request in an unknown shape, or of one that was refused because it is invalid."""
    messages = []
    for turn in conversation(body, None):
        text = "\n".join(part.text for part in turn.parts if part.kind != "image")
        role = turn.role if turn.role in ("system", "assistant") else "user"
        if text:
            messages.append({"role": role, "content": text})
    return LoggedRequest(messages, omissions=[TEXT_ALONE])
