"""Finds the kinds of a table in a text: one pass of RE2 for all of them, the exact forms and checks where it hits.

Texts are searched as Latin-1, one byte a character: all forms are ASCII. A kind begins where a word begins, or, if
it says so, with a plus, a parenthesis or a hyphen.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import re2

from gateway_project.work.guardrails.detectors.base import CONTEXT, MAX_SPAN, Detector, Match, new_match
from gateway_project.work.guardrails.detectors.expressions import beginnings_of, longest_match, parse_pattern
from gateway_project.work.guardrails.detectors.kinds.direct_matching import Matcher, matcher
from gateway_project.work.guardrails.detectors.normalisation import normalise_text

MAX_BYTES = 64 * 1024 * 1024
# So many kinds in a text are looked for one after the other, more of them together.
FEW_KINDS = 3
_IS_ALPHANUMERIC = tuple(chr(code).isalnum() and code < 128 for code in range(256))
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
    """Kinds that are looked for one after the other, or all in one pass."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = tuple(kinds)
        self._search = matcher(_compiled_union(kinds))
        forms = [_compiled_form(kind.form) for kind in kinds]
        self._forms = [matcher(form, at_start=True) for form in forms]
        self._has_group = [form.groups > 0 for form in forms]
        self._set = _set_of([kind.form for kind in kinds], re2.Set.MatchSet(_options()))
        self._searches: dict[int, Matcher] = {}  # by kind, once there is one to look for
        self._longest = min(
            MAX_SPAN, max((longest_match(parse_pattern(kind.form)) or MAX_SPAN for kind in kinds), default=0)
        )

    def scan(self, text: str, encoded: bytes, start: int, numbers: Sequence[int]) -> list[Match]:
        """The matches of these kinds in order of their begin; no other kind is in the text."""
        if len(numbers) > FEW_KINDS:
            return list(self.scan_places(text, encoded, start))
        matches = [match for number in sorted(numbers) for match in self._matches_of(number, text, encoded, start)]
        return _in_order(matches) if len(numbers) > 1 else matches

    def _matches_of(self, number: int, text: str, encoded: bytes, start: int) -> list[Match]:
        """The matches of one kind, which do not overlap."""
        kind, search, size = self._kinds[number], self._search_of(number), len(encoded)
        is_plain, is_checked = kind.begins_word and not self._has_group[number], kind.check is not len
        matches: list[Match] = []
        while start < size:
            first, end = search(encoded, start, size)[0]
            if first < 0:
                break
            if is_plain and _IS_ALPHANUMERIC[encoded[first]]:  # otherwise what stands before a word is part of it
                length = kind.check(text[first:end]) if is_checked else end - first
                match = new_match((first, first + length, kind.name)) if length else None
                start = first + (length or 1)
            else:
                match = self._first_exact(number, text, encoded, first, end)
                start = end if match is None else match.end
            if match is not None:
                matches.append(match)
        return matches

    def _first_exact(self, number: int, text: str, encoded: bytes, first: int, end: int) -> Match | None:
        """The first match of a kind that begins within a span; what stands before a word may look like its begin."""
        while (begin := _BEGIN.search(encoded, first, end)) is not None:
            if (match := self._exact(number, text, encoded, begin.start())) is not None:
                return match
            first = begin.end()
        return None

    def _search_of(self, number: int) -> Matcher:
        search = self._searches.get(number)
        if search is None:
            kind = self._kinds[number]
            search = self._searches[number] = matcher(_compile(_anchor_patterns([kind], [kind.form])))
        return search

    def scan_places(
        self, text: str, encoded: bytes, start: int, may_count: "Callable[[int], bool] | None" = None
    ) -> Iterator[Match]:
        """The same for many kinds: each place where one may begin is looked at; `may_count` rules places out."""
        after, last, size = start, -1, len(encoded)
        first, end = self._search(encoded, start, size)[0]
        while first >= 0:
            while (begin := _BEGIN.search(encoded, max(first, after), max(end, after))) is not None:
                after = begin.end()
                place = begin.start()
                may_match = may_count is None or may_count(place)
                for match in self._matches_at(text, encoded, place) if may_match else ():
                    if match.end > last:
                        last = match.end
                        yield match
                if last >= end:  # what else begins in it goes with it
                    after = max(after, end)
            first, end = self._search(encoded, end, size)[0]

    def _matches_at(self, text: str, encoded: bytes, place: int) -> list[Match]:
        """The matches that begin at a place, the longest first."""
        numbers = self._set.Match(encoded[place : place + self._longest])
        if not numbers:
            return []
        exact = [self._exact(number, text, encoded, place) for number in sorted(numbers)]
        matches = [match for match in exact if match is not None]
        return sorted(matches, key=lambda match: -match.end) if len(matches) > 1 else matches

    def _exact(self, number: int, text: str, encoded: bytes, place: int) -> Match | None:
        kind = self._kinds[number]
        first, end = self._forms[number](encoded, place, len(encoded))[self._has_group[number]]
        if first < 0:
            return None
        if kind.context is not None and not kind.context.search(text[max(0, first - CONTEXT) : first].lower()):
            return None
        length = kind.check(text[first:end])
        return Match(first, first + length, kind.name) if length else None


class KindScanner(Detector):
    """Some kinds, compiled. Those that need a context are looked for near the words that are one.

    A text is searched for any kind, then for which kinds it has, then for these.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        alone = [kind for kind in kinds if kind.context is None]
        in_context = [kind for kind in kinds if kind.context is not None]
        ordered = [*alone, *in_context]
        self._search = matcher(_compiled_union(ordered))
        self._present = _set_of(
            [_anchor_patterns([kind], [kind.form]) for kind in ordered], re2.Set.SearchSet(_options())
        )
        self._all, self._alone_count = range(len(ordered)), len(alone)
        self._alone, self._in_context = _Group(alone), _Group(in_context)
        self._contexts = matcher(_compiled_contexts(in_context)) if in_context else None
        nodes = [parse_pattern(kind.form) for kind in kinds]
        self._beginnings = matcher(_compile(rf"{_anchor_patterns(kinds, [beginnings_of(node) for node in nodes])}\z"))
        self.longest = min(MAX_SPAN, max(longest_match(node) or MAX_SPAN for node in nodes))

    def scan(self, text: str, start: int = 0) -> list[Match]:
        if text.isascii():
            return self._scan(text, text.encode(), start)
        normal = normalise_text(text)
        matches = self._scan(normal.text, normal.text.encode("latin-1", "replace"), normal.position(start))
        return [Match(*normal.span(first, end), category) for first, end, category in matches]

    def _scan(self, text: str, encoded: bytes, start: int) -> list[Match]:
        if self._search(encoded, start, len(encoded))[0][0] < 0:
            return []
        # A set that runs out of memory says that nothing matches, which is known to be wrong here.
        numbers = self._present.Match(encoded) or self._all
        alone = self._alone.scan(text, encoded, start, [one for one in numbers if one < self._alone_count])
        words = self._context_places(encoded, start) if max(numbers) >= self._alone_count else ()
        if not words:
            return alone

        def is_near(place: int) -> bool:
            before = bisect_left(words, place)
            return before > 0 and words[before - 1] >= place - 2 * CONTEXT

        return _in_order([*alone, *self._in_context.scan_places(text, encoded, start, is_near)])

    def _context_places(self, encoded: bytes, start: int) -> list[int]:
        """Where the words begin without which some kinds do not count, in order."""
        places: list[int] = []
        search, size = self._contexts, len(encoded)
        assert search is not None
        first, end = search(encoded, max(0, start - CONTEXT), size)[0]
        while first >= 0:
            places.append(first)
            first, end = search(encoded, end, size)[0]
        return places

    def pending_start(self, text: str, start: int = 0) -> int:
        normal = normalise_text(text)
        encoded = normal.text.encode("latin-1", "replace")
        first = self._beginnings(encoded, normal.position(start), len(encoded))[0][0]
        return len(text) if first < 0 else normal.original(first, len(text))


def _anchor_patterns(kinds: Sequence[Kind], patterns: Sequence[str]) -> str:
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


def _compiled_union(kinds: Sequence[Kind]) -> "re2._Regexp":
    """Any of the kinds. Whole forms where RE2 has room for them: what only begins like one then costs nothing more."""
    try:
        return _compile(_anchor_patterns(kinds, [kind.form for kind in kinds]))
    except re2.error:
        return _compile(_anchor_patterns(kinds, [kind.probe for kind in kinds]))


def _compiled_contexts(kinds: Sequence[Kind]) -> "re2._Regexp":
    words = dict.fromkeys(kind.context.pattern[len(_NO_LETTER_BEFORE) : -len(_NO_LETTER_AFTER)]
                          for kind in kinds if kind.context is not None)  # fmt: skip
    return _compile(f"(?i:{'|'.join(words)})")


def _compiled_form(pattern: str) -> "re2._Regexp":
    """Groups cost much, and most forms have none."""
    form = _compile(pattern, captures=True)
    return form if form.groups else _compile(pattern)


def _set_of(patterns: Sequence[str], result: re2.Set) -> re2.Set:
    for pattern in patterns:
        result.Add(pattern.encode("latin-1"))
    result.Compile()
    return result
