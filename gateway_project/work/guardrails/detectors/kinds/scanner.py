"""Finds the kinds of a table in a text: one pass of RE2 for all of them, the exact forms and checks where it hits.

Texts are searched as Latin-1, one byte a character: all forms are ASCII. A kind begins where a word begins, or, if
it says so, with a plus, a parenthesis or a hyphen.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import re2
from re2 import _re2

from gateway_project.work.guardrails.detectors.base import CONTEXT, MAX_SPAN, Detector, Match
from gateway_project.work.guardrails.detectors.expressions import beginnings, longest_match, parse
from gateway_project.work.guardrails.detectors.normalisation import normalise

MAX_BYTES = 64 * 1024 * 1024
# Where a kind may begin: also after an escape in JSON, which ends in a letter.
_BEGIN = re.compile(rb"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt]))[0-9A-Za-z]|[]+(<!\[-]")


_NO_LETTER_BEFORE, _NO_LETTER_AFTER = "(?<![a-z])", "(?![a-z])"


class Kind(NamedTuple):
    """Something that has a form.

    `form` is the pattern of the whole, in RE2's syntax; what a group of it matches is the match, if it has one.
    `probe` is what the first pass looks for: a short pattern that matches wherever a form begins. `check` says how
    many characters of a match are real: all, fewer, or 0. `context` must be found in lower case in the characters
    before.
    """

    name: str
    form: str
    probe: str
    check: Callable[[str], int] = len
    context: "re.Pattern[str] | None" = None
    begins_word: bool = True


DIGITS = r"\d(?:[ .-]?\d){6}"  # a probe of numbers: seven digits


def words_before(*words: str) -> "re.Pattern[str]":
    """The context that has one of the words."""
    return re.compile(f"{_NO_LETTER_BEFORE}(?:{'|'.join(words)}){_NO_LETTER_AFTER}")


class _Group:
    """Kinds that are looked for in one pass: first any of their forms, then which of them it is.

    Whole forms are looked for where RE2 has room for them, so that what only begins like one costs nothing more.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = tuple(kinds)
        try:
            self.hits = _compile(_anchored(kinds, [kind.form for kind in kinds]))
        except re2.error:
            self.hits = _compile(_anchored(kinds, [kind.probe for kind in kinds]))
        self._forms = [_compiled_form(kind.form) for kind in kinds]
        self._has_group = [form.groups > 0 for form in self._forms]
        self._set = _match_set([kind.form for kind in kinds])
        self._longest = min(MAX_SPAN, max(longest_match(parse(kind.form)) or MAX_SPAN for kind in kinds))

    def scan(
        self, text: str, encoded: bytes, start: int, may_count: "Callable[[int], bool] | None" = None
    ) -> Iterator[Match]:
        """The matches in order of their begin; `may_count` rules places out."""
        after, last = start, -1
        for first, end in _spans(self.hits, encoded, start):
            while (begin := _BEGIN.search(encoded, max(first, after), max(end, after))) is not None:
                after = begin.end()
                place = begin.start()
                for match in self._matches_at(text, encoded, place) if may_count is None or may_count(place) else ():
                    if match.end > last:
                        last = match.end
                        yield match
                if last >= end:  # what else begins in it goes with it
                    after = max(after, end)

    def _matches_at(self, text: str, encoded: bytes, place: int) -> list[Match]:
        """The matches that begin at a place, the longest first."""
        numbers = self._set.Match(encoded[place : place + self._longest])
        if not numbers:
            return []
        matches = [match for number in sorted(numbers) for match in self._exact(number, text, encoded, place)]
        return sorted(matches, key=lambda match: -match.end) if len(matches) > 1 else matches

    def _exact(self, number: int, text: str, encoded: bytes, place: int) -> Iterator[Match]:
        kind, form = self._kinds[number], self._forms[number]._regexp
        spans = form.Match(_re2.RE2.Anchor.ANCHOR_START, encoded, place, len(encoded))
        first, end = spans[self._has_group[number]]
        if first < 0:
            return
        if kind.context is not None and not kind.context.search(text[max(0, first - CONTEXT) : first].lower()):
            return
        if length := kind.check(text[first:end]):
            yield Match(first, first + length, kind.name)


class KindScanner(Detector):
    """Some kinds, compiled. Those that need a context are looked for near the words that are one."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        alone = [kind for kind in kinds if kind.context is None]
        in_context = [kind for kind in kinds if kind.context is not None]
        self._alone = _Group(alone) if alone else None
        self._in_context = _Group(in_context) if in_context else None
        self._contexts = _compiled_contexts(in_context) if in_context else None
        nodes = [parse(kind.form) for kind in kinds]
        self._beginnings = _compile(rf"{_anchored(kinds, [beginnings(node) for node in nodes])}\z")
        self.longest = min(MAX_SPAN, max(longest_match(node) or MAX_SPAN for node in nodes))

    def scan(self, text: str, start: int = 0) -> list[Match]:
        if text.isascii():
            return self._scan(text, text.encode(), start)
        normal = normalise(text)
        matches = self._scan(normal.text, normal.text.encode("latin-1", "replace"), normal.position(start))
        return [Match(*normal.span(first, end), category) for first, end, category in matches]

    def _scan(self, text: str, encoded: bytes, start: int) -> list[Match]:
        alone = [] if self._alone is None else list(self._alone.scan(text, encoded, start))
        group = self._in_context
        if group is None or group.hits.search(encoded, start) is None:
            return alone
        words = self._context_places(encoded, start)
        if not words:
            return alone

        def is_near(place: int) -> bool:
            before = bisect_left(words, place)
            return before > 0 and words[before - 1] >= place - 2 * CONTEXT

        return _in_order([*alone, *group.scan(text, encoded, start, is_near)])

    def _context_places(self, encoded: bytes, start: int) -> list[int]:
        """Where the words begin without which some kinds do not count, in order."""
        assert self._contexts is not None
        return [word.start() for word in self._contexts.finditer(encoded, max(0, start - CONTEXT))]

    def pending(self, text: str, start: int = 0) -> int:
        normal = normalise(text)
        encoded = normal.text.encode("latin-1", "replace")
        match = self._beginnings.search(encoded, normal.position(start))
        return len(text) if match is None else normal.original(match.start(), len(text))


def _spans(pattern: "re2._Regexp", encoded: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Where the pattern matches, none of them empty; its own objects for matches would take most of the time."""
    search, size = pattern._regexp.Match, len(encoded)
    while start < size:
        first, end = search(_re2.RE2.Anchor.UNANCHORED, encoded, start, size)[0]
        if first < 0:
            return
        yield first, end
        start = end


def _anchored(kinds: Sequence[Kind], patterns: Sequence[str]) -> str:
    """One of the patterns of kinds, where a kind may begin."""
    words = "|".join(pattern for kind, pattern in zip(kinds, patterns, strict=True) if kind.begins_word)
    others = [pattern for kind, pattern in zip(kinds, patterns, strict=True) if not kind.begins_word]
    return f"(?:{'|'.join([*others, *([_word(words)] if words else [])])})"


def _word(pattern: str) -> str:
    return rf"(?:\\[bfnrt]|_|\b)(?:{pattern})"


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MAX_BYTES
    options.encoding = re2.Options.Encoding.LATIN1
    return options


def _compile(pattern: str, *, captures: bool = False) -> "re2._Regexp":
    options = _options()
    options.never_capture = not captures
    return re2.compile(pattern.encode("latin-1"), options)


def _in_order(matches: Sequence[Match]) -> list[Match]:
    """The matches by their begin, without those that lie within another one."""
    result: list[Match] = []
    for match in sorted(matches, key=lambda one: (one.start, -one.end)):
        if not result or match.end > result[-1].end:
            result.append(match)
    return result


def _compiled_contexts(kinds: Sequence[Kind]) -> "re2._Regexp":
    words = dict.fromkeys(kind.context.pattern[len(_NO_LETTER_BEFORE) : -len(_NO_LETTER_AFTER)]
                          for kind in kinds if kind.context is not None)  # fmt: skip
    return _compile(f"(?i:{'|'.join(words)})")


def _compiled_form(pattern: str) -> "re2._Regexp":
    """Groups cost much, and most forms have none."""
    form = _compile(pattern, captures=True)
    return form if form.groups else _compile(pattern)


def _match_set(forms: Sequence[str]) -> re2.Set:
    result = re2.Set.MatchSet(_options())
    for form in forms:
        result.Add(form.encode("latin-1"))
    result.Compile()
    return result
