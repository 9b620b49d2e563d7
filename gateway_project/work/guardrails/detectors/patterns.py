"""The type `pattern`: regular expressions of an administrator, by RE2, in linear time."""

from collections.abc import Iterator, Mapping, Sequence

import re2

from gateway_project.work.guardrails.detectors.base import MAX_SPAN, Detector, Match
from gateway_project.work.guardrails.detectors.composition import Completions, compose_letters
from gateway_project.work.guardrails.detectors.expressions import (
    TooComplexError,
    beginnings_of,
    longest_match,
    parse_pattern,
)
from gateway_project.work.guardrails.detectors.kinds.direct_matching import Matcher, matcher
from gateway_project.work.guardrails.detectors.normalisation import normalise_text
from gateway_project.work.guardrails.detectors.parameters import Parameters, invalid_parameter

PLACES = TEXT, ARGUMENTS = "text", "arguments"
MAX_PATTERNS, MAX_LENGTH = 200, 1000
MAX_BYTES = 8 * 1024 * 1024  # of one compiled pattern
MAX_BYTES_OF_ALL = 64 * 1024 * 1024


class Patterns(Detector):
    """Patterns, tried on the text as it is and as a reader sees it.

    The category of a match is the pattern's name, or `pattern-` and its number.
    """

    def __init__(self, patterns: Sequence[str], *, ignore_case: bool, names: Sequence[str] = ()) -> None:
        self._names = names or [f"pattern-{number}" for number in range(1, len(patterns) + 1)]
        self._patterns = [_compile(pattern, ignore_case=ignore_case) for pattern in patterns]
        every = "|".join(f"(?:{one})" for one in patterns)
        self._any = matcher(_compile(every, ignore_case=ignore_case, bytes_of_memory=MAX_BYTES_OF_ALL))
        self._set = _set(patterns, ignore_case=ignore_case)
        self._completions = Completions(patterns)
        self._beginnings, self.longest = _compile_beginnings(patterns, ignore_case=ignore_case)

    def scan(self, text: str, start: int = 0) -> list[Match]:
        if text.isascii():
            return sorted(set(self._scan(text.encode(), start)))
        normal = compose_letters(normalise_text(text))
        spans = self._in_characters(text, start)
        if normal.text != text:
            matches = self._in_characters(normal.text, normal.position(start))
            spans |= {Match(*normal.span(one.start, one.end), one.category) for one in matches}
        return sorted(spans)

    def _in_characters(self, text: str, start: int) -> set[Match]:
        """The matches in a text that is not ASCII."""
        encoded = text.encode("utf-8", "surrogatepass")
        matches = list(self._scan(encoded, len(text[:start].encode("utf-8", "surrogatepass"))))
        offsets = _character_offsets(encoded, sorted({place for one in matches for place in one[:2]}))
        return {Match(offsets[first], offsets[end], category) for first, end, category in matches}

    def _scan(self, text: bytes, start: int) -> Iterator[Match]:
        if self._any(text, start, len(text))[0][0] < 0:
            return
        for number in self._candidates(text):
            for match in self._patterns[number].finditer(text, start):
                first, end = match.span()
                if end > first:
                    yield Match(first, end, self._names[number])

    def _candidates(self, text: bytes) -> Sequence[int]:
        """The patterns that match somewhere."""
        # A set that runs out of memory says that nothing matches, which is known to be wrong here.
        return self._set.Match(text) or range(len(self._patterns))

    def pending_start(self, text: str, start: int = 0) -> int:
        if self._beginnings is None:
            return super().pending_start(text, start)
        first = min(self._pending_start(end, start) for end in self._completions.of(text))
        if not text.isascii():
            normal = compose_letters(normalise_text(text))
            position = normal.position(start)
            pending = min(self._pending_start(end, position) for end in self._completions.of(normal.text))
            first = min(first, normal.original(pending, len(text)))
        return first

    def _pending_start(self, text: str, start: int) -> int:
        encoded = text.encode("utf-8", "surrogatepass")
        offset = start if len(encoded) == len(text) else len(text[:start].encode("utf-8", "surrogatepass"))
        first = self._beginnings(encoded, offset, len(encoded))[0][0] if self._beginnings else -1
        return len(text) if first < 0 else len(text) - len(encoded[first:].decode("utf-8", "surrogatepass"))


def compile_patterns(members: Mapping[str, object]) -> Patterns:
    parameters = Parameters(members, names=("patterns", "ignoreCase", "in"))
    patterns = parameters.texts("patterns", most=MAX_PATTERNS, longest=MAX_LENGTH, required=True)
    ignore_case = parameters.flag("ignoreCase", default=True)
    for position, pattern in enumerate(patterns):
        _check(pattern, f"patterns.{position}", ignore_case=ignore_case)
    places = parameters.choices("in", PLACES)
    try:
        detector = Patterns(patterns, ignore_case=ignore_case)
    except re2.error:
        raise invalid_parameter("patterns", "are too large together; divide them among several guardrails.") from None
    detector.searches_texts, detector.searches_calls = TEXT in places, ARGUMENTS in places
    return detector


def _check(pattern: str, place: str, *, ignore_case: bool) -> None:
    try:
        matches_nothing = _compile(pattern, ignore_case=ignore_case).search(b"") is not None
    except (re2.error, UnicodeEncodeError) as error:
        raise invalid_parameter(place, f"is not a valid RE2 pattern: {_reason(error)}.") from None
    if matches_nothing:
        raise invalid_parameter(place, "must not match the empty text.")


def _reason(error: Exception) -> str:
    reason = error.args[0] if isinstance(error, re2.error) and error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _options(*, ignore_case: bool, bytes_of_memory: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = bytes_of_memory
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.never_capture = True
    return options


def _compile(pattern: str, *, ignore_case: bool, bytes_of_memory: int = MAX_BYTES) -> "re2._Regexp":
    return re2.compile(pattern.encode(), _options(ignore_case=ignore_case, bytes_of_memory=bytes_of_memory))


def _set(patterns: Sequence[str], *, ignore_case: bool) -> re2.Set:
    result = re2.Set.SearchSet(_options(ignore_case=ignore_case, bytes_of_memory=MAX_BYTES_OF_ALL))
    for pattern in patterns:
        result.Add(pattern)
    result.Compile()
    return result


def _compile_beginnings(patterns: Sequence[str], *, ignore_case: bool) -> tuple[Matcher | None, int]:
    """What the beginnings of matches look like, at the end of a text, and the longest match.

    None where a pattern is too complex: then a stream holds back as much as the longest match has.
    """
    try:
        nodes = [parse_pattern(pattern) for pattern in patterns]
        every = "|".join(map(beginnings_of, nodes))
        compiled = _compile(rf"(?:{every})\z", ignore_case=ignore_case, bytes_of_memory=MAX_BYTES_OF_ALL)
    except (TooComplexError, re2.error):
        return None, MAX_SPAN
    return matcher(compiled), min(MAX_SPAN, max(longest_match(node) or MAX_SPAN for node in nodes))


def _character_offsets(encoded: bytes, places: Sequence[int]) -> dict[int, int]:
    """The offsets in characters of some offsets in bytes, in order, in one pass."""
    offsets: dict[int, int] = {}
    last = characters = 0
    for place in places:
        characters += len(encoded[last:place].decode("utf-8", "surrogatepass"))
        offsets[place] = characters
        last = place
    return offsets
