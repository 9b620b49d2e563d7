"""A recorded stream as the answer that it carried, whatever format its events have.

Like conversation.py, which shows it, it takes what it understands and leaves out the rest: of a stream that the log has
cut, the last event is no JSON any more.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gateway_project.json_types import JsonObject
from telemetry.log_page.logged_json import as_object, objects_in

EVENT_LINE = re.compile(r"^(?:data:\s*)?(\{.*)$", re.MULTILINE)
STREAM = re.compile(r"\A\s*(?:(?:data|event|id|retry)?:|\{.*\}\s*\n\s*\{)")  # events, or one JSON object in each line


class Piece(NamedTuple):
    """A piece of a text or of a tool's arguments; pieces of one `place` belong together until there is a new call."""

    place: str
    text: str
    kind: str = "text"
    name: str = ""
    call_id: str = ""


def streamed_answer(body: object) -> JsonObject | None:
    """The answer, in a form that conversation.py reads; None if this is no stream."""
    if not isinstance(body, str) or not STREAM.match(body):
        return None
    events = list(_events(body))
    for event in reversed(events):
        if (response := as_object(event.get("response"))).get("output"):
            return dict(response)  # the Responses API repeats all of it at the end
    return {"content": _join_pieces(piece for event in events for piece in _pieces(event))}


def _events(body: str) -> Iterator[JsonObject]:
    for line in EVENT_LINE.findall(body):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        yield value


def _join_pieces(pieces: Iterator[Piece]) -> list[JsonObject]:
    parts: list[JsonObject] = []
    latest: dict[str, JsonObject] = {}  # by place
    for place, text, kind, name, call_id in pieces:
        part = latest.get(place)
        if part is None or (call_id and call_id != part["id"]):
            latest[place] = part = {"type": kind, "id": call_id, "name": name, "text": "", "input": ""}
            parts.append(part)
        part["name"] = part["name"] or name
        part["input" if kind == "tool_use" else "text"] += text
    return parts


def _pieces(event: JsonObject) -> Iterator[Piece]:
    """What one event adds, in the form of OpenAI, Gemini, Ollama, Anthropic, Cohere or the Responses API."""
    for choice in objects_in(event.get("choices")):
        message = as_object(choice.get("delta")) or as_object(choice.get("message")) or {"content": choice.get("text")}
        yield from _of_message(message, f"{choice.get('index')}")
    for candidate in objects_in(event.get("candidates")):
        yield from _of_content(as_object(candidate.get("content")).get("parts"), f"{candidate.get('index')}")
    yield from _of_message(as_object(event.get("message")), "message")
    place = f"{event.get('index', event.get('item_id'))}"
    block, delta = event.get("content_block", event.get("item")), event.get("delta")
    yield from _of_content([block], f"{as_object(block).get('id', place)}" if "item" in event else place)
    if isinstance(delta, str):
        yield Piece(place, delta, "tool_use" if "arguments" in str(event.get("type")) else "text")
    else:
        yield from _of_content([delta], place)
    yield from _of_message(as_object(as_object(delta).get("message")), place)


def _of_message(message: Mapping[str, object], place: str) -> Iterator[Piece]:
    content, calls = message.get("content"), message.get("tool_calls")
    yield from _of_content(content if isinstance(content, list) else [content], place)
    for number, call in enumerate(objects_in(calls if isinstance(calls, list) else [calls])):
        function = as_object(call.get("function"))
        yield _call(function, f"{place}/{call.get('index', number)}", "arguments", call.get("id"))


def _of_content(parts: object, place: str) -> Iterator[Piece]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str) and part:
            yield Piece(place, part)
        values = as_object(part)
        for name in ("text", "thinking", "refusal"):
            if isinstance(text := values.get(name), str) and text:
                yield Piece(place, text)
        if isinstance(arguments := values.get("partial_json"), str):
            yield Piece(place, arguments, "tool_use")
        if str(values.get("type")).endswith(("tool_use", "function_call")):
            yield _call(values, place, "arguments")
        if called := as_object(values.get("functionCall")):
            yield _call(called, f"{place}/{called}", "args")


def _call(call: Mapping[str, object], place: str, arguments: str, call_id: object = "") -> Piece:
    """The name of a tool, which comes with its first piece, and what is here of its arguments."""
    name, value = str(call.get("name") or ""), call.get(arguments) or ""
    if isinstance(value, str):
        return Piece(place, value, "tool_use", name, str(call_id or ""))
    return Piece(f"{place}/{call}", json.dumps(value), "tool_use", name)  # a whole call, as no other has its place
