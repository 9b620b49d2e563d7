"""Joins surrogate pairs that are split over two pieces of a stream. JSON escapes characters beyond U+FFFF as pairs."""

import re
from dataclasses import fields, replace

from gateway_project.json_types import JsonObject
from providers.formats.neutral.deltas import CallDelta, Delta, ReasoningDelta, RefusalDelta, TextDelta
from providers.formats.neutral.reply import Citation

# A lone surrogate is not a character: a character of the last private-use plane replaces it until its half arrives.
PLACEHOLDERS, SURROGATES = 0x10F000, 0xD000
PLACEHOLDER = re.compile("[\U0010f800-\U0010ffff]")
ENDS_A_PAIR = re.compile("(?<=[\U0010f800-\U0010fbff])[\U0010fc00-\U0010ffff]")
LAST_HIGH_SURROGATE = "\U0010fbff"
REPLACEMENT = "\ufffd"
TEXT_FIELDS = {TextDelta: "text", ReasoningDelta: "text", RefusalDelta: "text", CallDelta: "arguments"}


class SurrogateJoiner:
    """Joins split pairs in a stream's deltas: a high surrogate waits for the next delta; a lone one becomes U+FFFD."""

    def __init__(self) -> None:
        self._found_any = False
        self._waiting: Delta | None = None  # its text is a high surrogate alone

    def placeholder(self, digits: bytes) -> bytes:
        """The placeholder for a lone surrogate whose code point ends in these three hex digits."""
        self._found_any = True
        return chr(PLACEHOLDERS + int(digits, 16)).encode()

    def finalise(self, text: str) -> str:
        """The text without placeholders, if no other piece continues it."""
        return _without_placeholders(text) if self._found_any else text

    def join(self, deltas: list[Delta]) -> list[Delta]:
        """The deltas with pairs joined and without placeholders."""
        return [joined for delta in deltas for joined in self._join(delta)] if self._found_any else deltas

    def _join(self, delta: Delta) -> list[Delta]:
        delta = _with_complete_fields(delta)
        if isinstance(delta, Citation):  # it does not separate the texts around it
            return [delta]
        waiting, self._waiting = self._waiting, None
        name = TEXT_FIELDS.get(type(delta), "")
        text = getattr(delta, name, "")
        joined: list[Delta] = []
        if waiting is not None and _may_continue(waiting, delta):
            text = getattr(waiting, name) + text
        elif waiting is not None:
            joined.append(_with_text(waiting, REPLACEMENT))
        if not text:
            return [*joined, delta]
        if PLACEHOLDER.match(text[-1]) and text[-1] <= LAST_HIGH_SURROGATE and not getattr(delta, "signature", ""):
            self._waiting = _half_character(delta, text[-1])
            text = text[:-1]
        return [*joined, _with_text(delta, _without_placeholders(text))]


def merge_surrogates(text: str, before: str) -> str:
    """The text with each pair of placeholders as one character, to count characters; `before` precedes the text."""
    return ENDS_A_PAIR.sub("", before + text)[len(before) :]


def _with_complete_fields(delta: Delta) -> Delta:
    """The delta without placeholders in fields that come whole, such as titles and addresses."""
    names = [field.name for field in fields(delta) if field.name != TEXT_FIELDS.get(type(delta))]
    texts = {name: text for name in names if isinstance(text := getattr(delta, name), str) and PLACEHOLDER.search(text)}
    changes: JsonObject = {name: _without_placeholders(text) for name, text in texts.items()}
    return replace(delta, **changes) if changes else delta


def _may_continue(waiting: Delta, delta: Delta) -> bool:
    is_same_text = type(waiting) is type(delta) and getattr(waiting, "index", 0) == getattr(delta, "index", 0)
    return is_same_text and not getattr(delta, "begins", False)


def _half_character(delta: Delta, text: str) -> Delta:
    """A delta of the same kind with this text, which continues the delta."""
    return replace(delta, text=text, begins=False) if isinstance(delta, ReasoningDelta) else _with_text(delta, text)


def _with_text(delta: Delta, text: str) -> Delta:
    changes: JsonObject = {TEXT_FIELDS[type(delta)]: text}
    return replace(delta, **changes)


def _without_placeholders(text: str) -> str:
    surrogates = PLACEHOLDER.sub(lambda match: chr(ord(match[0]) - PLACEHOLDERS + SURROGATES), text)
    return surrogates.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
