"""What the events of all client APIs and providers have in common, as far as guardrails need to know. Pure.

An event may bring pieces of texts, which the pieces of later events go on with; it may bring whole texts; and it may
say that texts have ended: all, or those of one choice, one message, one block.
"""

import re
from typing import Any, NamedTuple

from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.texts import Kind, Path
from providers.formats.sse import BYTE_ORDER_MARK, is_one_line

# Members that hold pieces, in events that bring pieces.
PIECES = frozenset({
    *("content", "text", "delta", "arguments", "partial_json", "thinking", "reasoning", "reasoning_content", "refusal"),
    *("response", "tool_plan", "transcript", "input"),
})  # fmt: skip
# The members of an event that say which part of the answer it is about.
IDENTITY = ("index", "output_index", "content_index", "summary_index", "item_id")
ENDS = ("done", "stop", "end", "completed", "incomplete", "failed", "message_delta")
FINISHED = ("finish_reason", "finishReason", "stop_reason")
Scope = tuple[Any, ...]
_DATA_LINE = re.compile(rb"(?:\A|(?<=[\r\n]))data(?::[^\r\n]*)?(?:\r\n|\r|\n|\Z)")

# A line that is no field, no comment, and not empty.
_STRAY_LINE = re.compile(rb"(?:\A|[\r\n])(?!(?:data|event|id|retry)(?:[:\r\n]|\Z)|[:\r\n]|\Z)")


class Ending(NamedTuple):
    """Which texts an event ends: those of its scope, and those of some choices; None: it ends none by its scope."""

    scope: Scope | None = None
    choices: frozenset[str | int] = frozenset()

    def ends(self, scope: Scope, choice: str | int | None) -> bool:
        """Whether a text of this scope, or of this choice, ends."""
        if self.choices and choice in self.choices:
            return True
        own = self.scope
        if own is None:
            return False
        return all(one is None or other in (None, one) for one, other in zip(own, scope, strict=True))


EVERYTHING = Ending((None,) * len(IDENTITY))
NOTHING = Ending()


def scope_of(value: JsonObject) -> Scope:
    """What an event is about."""
    return tuple([value.get(name) for name in IDENTITY])


def ending_of(value: JsonObject) -> Ending:
    """Which texts an event ends."""
    type_ = value.get("type")
    if isinstance(type_, str) and type_.endswith(ENDS):
        return Ending(scope_of(value))
    if value.get("done") is True or any(value.get(name) for name in FINISHED):
        return EVERYTHING
    choices = value.get("choices") or value.get("candidates")
    if not isinstance(choices, list):
        return NOTHING
    ended = [
        choice.get("index", place)
        for place, choice in enumerate(choices)
        if isinstance(choice, dict) and any(choice.get(name) for name in FINISHED)
    ]
    return Ending(choices=frozenset(ended)) if ended else NOTHING


def is_part(value: JsonObject, kind: Kind, path: Path) -> bool:
    """Whether a text of an event is a piece of a longer one."""
    if kind in (Kind.TOOL, Kind.CALL) or path is None or path[1] not in PIECES:
        return False
    type_ = value.get("type")
    return not isinstance(type_, str) or "delta" in type_


def is_repetition(value: JsonObject) -> bool:
    """Whether the texts of an event are those of earlier ones, as a whole."""
    type_ = value.get("type")
    return isinstance(type_, str) and type_.startswith("response.") and type_.endswith(ENDS)


def choice_of(path: Path) -> str | int | None:
    """The number of the choice, or the candidate, that a text belongs to."""
    last = None
    while path is not None:
        before, member = path
        if before is None:
            return last if member in ("choices", "candidates") else None
        last, path = member, before
    return None


def has_stray_lines(event: bytes) -> bool:
    """Whether an event has lines that are neither fields nor comments: some services send lines of JSON as events."""
    return not is_one_line(event) and _STRAY_LINE.search(event.removeprefix(BYTE_ORDER_MARK)) is not None


def line_data(line: bytes) -> bytes:
    """What a line of JSON holds, also one that is written like the data of an event."""
    return line.strip().removeprefix(b"data:").strip()


def with_line_data(line: bytes, data: bytes) -> bytes:
    """The line with other data."""
    return (b"data: " if line.startswith(b"data:") else b"") + data + b"\n"


def with_data(event: bytes, data: bytes) -> bytes:
    """The event with other data; its name and its comments stay."""
    if event.startswith(b"data:") and event.find(b"\n") >= len(event) - 2:
        return b"data: " + data + b"\n\n"
    lines = _DATA_LINE.sub(b"", event.removeprefix(BYTE_ORDER_MARK)).strip(b"\r\n")
    return (lines + b"\n" if lines else b"") + b"data: " + data + b"\n\n"
