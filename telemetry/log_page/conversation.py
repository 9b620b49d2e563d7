"""A logged request and its answer as the turns of a conversation, whatever format the client spoke.

All of it is hostile text: a part has texts for a template to escape, and at most the address of an image that holds
its own data, of a type that cannot run scripts. What is not understood is left out: the page shows the raw JSON beside.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from telemetry.log_page.logged_json import as_object, logged_object, objects_in
from telemetry.log_page.streamed import streamed_answer

IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
MAX_TURNS, MAX_IMAGE = 200, 2_000_000
KNOWN_ROLES = ("system", "developer", "user", "assistant", "tool")
ROLES = {"model": "assistant", "function": "tool", "human": "user"}


class Part(NamedTuple):
    """A piece of a turn: `kind` is text, image, call or result; `title` names a tool."""

    kind: str
    text: str
    title: str = ""


class Turn(NamedTuple):
    role: str
    parts: list[Part]


def conversation(request: object, response: object) -> list[Turn]:
    """The turns in order; empty if there is no conversation, as for embeddings."""
    request = logged_object(request)[0]
    response = streamed_answer(response) or logged_object(response)[0] or response
    try:
        turns = [turn for turn in (*_request_turns(request), *_reply_turns(response)) if turn.parts]
    except RecursionError:  # requests are never so deep, but answers of some providers may be anything
        return []
    return turns[:MAX_TURNS]


def _request_turns(request: object) -> Iterator[Turn]:
    if not isinstance(request, Mapping):
        return
    for name in ("system", "instructions", "system_instruction", "systemInstruction"):
        if name in request:
            yield Turn("system", list(_parts(request[name])))
    for name in ("messages", "contents", "input", "prompt"):
        yield from _turns(request.get(name))


def _turns(messages: object) -> Iterator[Turn]:
    if isinstance(messages, str):
        yield Turn("user", list(_parts(messages)))
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping):
            yield _turn(message)


def _turn(message: Mapping[str, object]) -> Turn:
    role = str(message.get("role") or {"function_call": "assistant"}.get(str(message.get("type")), "tool"))
    role = ROLES.get(role, role)
    content = message.get("content", message.get("parts"))
    if content is None and "role" not in message:
        return Turn(role, list(_part(message)))
    parts = [*_parts(content), *_calls(message.get("tool_calls"))]
    if role == "tool":
        title = str(message.get("name") or message.get("tool_call_id") or "")
        parts = [Part("result", part.text, title) if part.kind == "text" else part for part in parts]
    return Turn(role if role in KNOWN_ROLES else "unknown", parts)


def _reply_turns(response: object) -> Iterator[Turn]:
    if isinstance(response, str):
        yield Turn("assistant", [Part("text", response)] if response.strip() else [])
    if not isinstance(response, Mapping):
        return
    for choice in objects_in(response.get("choices")):
        message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
        yield _turn({"role": "assistant", **message} if isinstance(message, Mapping) else {})
    for candidate in objects_in(response.get("candidates")):
        yield Turn("assistant", list(_parts(candidate.get("content"))))
    for name in ("content", "message", "output"):
        yield Turn("assistant", list(_parts(response.get(name))))


def _parts(content: object) -> Iterator[Part]:
    """The parts of a content in any format."""
    if isinstance(content, str):
        if content:
            yield Part("text", content)
    elif isinstance(content, list):
        for part in content:
            yield from _parts(part) if isinstance(part, str) else _part(part)
    elif isinstance(content, Mapping):
        yield from _part(content)


def _part(part: object) -> Iterator[Part]:
    if not isinstance(part, Mapping):
        return
    kind = part.get("type")
    if kind in ("tool_use", "function_call") or "functionCall" in part:
        call = as_object(part.get("functionCall", part))
        yield Part("call", _text(_first_value(call, "input", "arguments", "args")), str(call.get("name", "")))
    elif kind in ("tool_result", "function_call_output") or "functionResponse" in part:
        result = as_object(part.get("functionResponse", part))
        title = str(_first_value(result, "name", "tool_use_id", "call_id") or "")
        yield Part("result", _text(_first_value(result, "content", "output", "response")), title)
    elif kind in ("image_url", "input_image", "image") or "inlineData" in part or "inline_data" in part:
        yield _image(part)
    elif isinstance(text := _first_value(part, "text", "refusal", "thinking"), str):
        yield Part("text", text)
    else:
        yield from _parts(part.get("content", part.get("parts")))
        yield from _calls(part.get("tool_calls"))


def _calls(calls: object) -> Iterator[Part]:
    for call in objects_in(calls):
        function = call.get("function")
        if isinstance(function, Mapping):
            yield Part("call", _text(function.get("arguments")), str(function.get("name", "")))


def _image(part: Mapping[str, object]) -> Part:
    """An image with its data, or the text of any other address."""
    url = _first_value(part, "image_url", "url")
    address = str(url.get("url", "") if isinstance(url, Mapping) else url or "")
    data = _first_value(part, "source", "inlineData", "inline_data")
    if isinstance(data, Mapping):
        type_ = _first_value(data, "media_type", "mimeType", "mime_type")
        address = f"data:{type_};base64,{data['data']}" if "data" in data else str(data.get("url", ""))
    is_shown = len(address) <= MAX_IMAGE and IMAGE.fullmatch(address) is not None
    return Part("image", address) if is_shown else Part("text", f"Image: {address[:200]}")


def _first_value(values: Mapping[str, object], *names: str) -> object:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _text(value: object) -> str:
    """A value as text; JSON in a text is formatted, unless it is too deep for that."""
    try:
        value = json.loads(value) if isinstance(value, str) else value
        return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return str(value)
