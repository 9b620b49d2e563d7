"""Replaces matches in texts; with placeholders, so that the originals can be put back into the answer. Pure."""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import count

from gateway_project.work.guardrails.detectors.base import Match

# As it stands in texts, and as some encoders write it in JSON.
_FORMS = ("<{}>", "\\u003c{}\\u003e", "\\u003C{}\\u003E")
_ANY_FORM = re.compile(r"(?:<|\\u003[cC])([A-Z][A-Z0-9_]*_[0-9]+)(?:>|\\u003[eE])")


def merge_matches(matches: Iterable[Match]) -> list[Match]:
    """The same parts of the text without overlaps; the longest match of those that overlap gives the category."""
    merged: list[Match] = []
    longest = 0
    for match in sorted(matches, key=lambda match: (match.start, -match.end)):
        length = match.end - match.start
        if not merged or match.start >= merged[-1].end:
            merged.append(match)
            longest = length
            continue
        last = merged[-1]
        category = match.category if length > longest else last.category
        longest = max(longest, length)
        merged[-1] = Match(last.start, max(last.end, match.end), category)
    return merged


def redact_matches(text: str, matches: Sequence[Match], replacement: Callable[[str, str], str] | None = None) -> str:
    """The text with each match replaced: by `[EMAIL]`, or by what a function makes of category and original."""
    if not matches:
        return text
    parts, last = [], 0
    for start, end, category in merge_matches(matches):
        parts += [text[last:start], replacement(category, text[start:end]) if replacement else f"[{_name(category)}]"]
        last = end
    return "".join([*parts, text[last:]])


def _name(category: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", category.upper()).strip("_") or "MATCH"


class Placeholders:
    """The placeholders of one request: the same original has the same one in all of its texts.

    `texts` are all texts of the request; a placeholder that one of them happens to contain is not given out. With a key
    the number is a digest: no other original gets it in another request with this key.
    """

    def __init__(self, texts: Iterable[str] = (), key: bytes = b"") -> None:
        self._key = key
        self._reserved = {name for text in texts for name in _ANY_FORM.findall(text)}
        self._names: dict[tuple[str, str], str] = {}
        self._originals: dict[str, str] = {}
        self._counters: dict[str, Iterator[int]] = {}
        self._forms: list[str] = []
        self._is_sorted = True

    def __bool__(self) -> bool:
        return bool(self._originals)

    def redact(self, text: str, matches: Sequence[Match]) -> str:
        """The text with a placeholder in the place of each match."""
        return redact_matches(text, matches, self.placeholder)

    def placeholder(self, category: str, original: str) -> str:
        """The placeholder of an original: `<EMAIL_1>`, or `<EMAIL_482913057>` with a key."""
        key = (_name(category), original)
        if key not in self._names:
            name = self._next_name(*key)
            self._names[key], self._originals[name] = name, original
            self._forms += [form.format(name) for form in _FORMS]
            self._is_sorted = False
        return f"<{self._names[key]}>"

    def _next_name(self, kind: str, original: str) -> str:
        names = (f"{kind}_{number}" for number in self._numbers(kind, original))
        return next(name for name in names if name not in self._reserved and name not in self._originals)

    def _numbers(self, kind: str, original: str) -> Iterator[int]:
        if not self._key:
            return self._counters.setdefault(kind, count(1))
        return (_digest(self._key, f"{place} {kind} {original}") for place in count())

    def restore(self, text: str, escape: Callable[[str], str] = str) -> str:
        """The text with the originals; `escape` makes them fit into it (in the arguments of tools: JSON's escapes)."""
        return _ANY_FORM.sub(
            lambda match: escape(self._originals[match[1]]) if match[1] in self._originals else match[0], text
        )

    def may_begin(self, text: str) -> bool:
        """Whether a placeholder begins with this text, and is not complete in it."""
        if not self._is_sorted:  # once: all of a request's placeholders are there before its answer begins
            self._forms.sort()
            self._is_sorted = True
        index = bisect_left(self._forms, text)
        return index < len(self._forms) and self._forms[index].startswith(text) and self._forms[index] != text

    @property
    def longest(self) -> int:
        return max(map(len, self._forms), default=0)


def _digest(key: bytes, text: str) -> int:
    """A number of nine digits."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest()
    return 10**8 + int.from_bytes(digest) % (9 * 10**8)


class Restorer:
    """Puts the originals into one text of a stream, whose placeholders may be split over pieces."""

    def __init__(self, placeholders: Placeholders, escape: Callable[[str], str] = str) -> None:
        self._placeholders, self._escape = placeholders, escape
        self._rest = ""

    def push(self, piece: str) -> str:
        """What can be passed on after the next piece."""
        text = self._rest + piece
        end = self._pending_start(text)
        self._rest = text[end:]
        return self._placeholders.restore(text[:end], self._escape)

    def close(self) -> str:
        """What remains at the end of the text."""
        rest, self._rest = self._rest, ""
        return rest

    def _pending_start(self, text: str) -> int:
        """Where the beginning of a placeholder stands at the end of the text."""
        for place in range(max(0, len(text) - self._placeholders.longest), len(text)):
            if text[place] in "<\\" and self._placeholders.may_begin(text[place:]):
                return place
        return len(text)


def json_escape(original: str) -> str:
    """An original as it stands in a string of JSON."""
    return json.dumps(original, ensure_ascii=False)[1:-1]
