"""The type `words`: a list of terms, found in one pass however many there are (Aho-Corasick)."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from gateway_project.work.guardrails.detectors.base import Detector, Match
from gateway_project.work.guardrails.detectors.composition import Completions, compose_letters
from gateway_project.work.guardrails.detectors.normalisation import Normal, normalise_text
from gateway_project.work.guardrails.detectors.parameters import Parameters

MAX_TERMS, MAX_TERM_LENGTH = 100_000, 200
BEGINNING = 3  # characters of a term by which most places of a text are ruled out


class Words(Detector):
    """Terms without regard to case; as whole words, or anywhere."""

    def __init__(self, terms: Sequence[str], *, whole_words: bool) -> None:
        import ahocorasick_rs  # imported here: most gateways have no lists of words

        self._terms = sorted({term for term in map(_fold, terms) if term})
        self._whole_words = whole_words
        self._beginnings = {term[:size] for term in self._terms for size in range(1, BEGINNING + 1)}
        self._automaton = ahocorasick_rs.AhoCorasick(
            self._terms,
            matchkind=ahocorasick_rs.MatchKind.Standard if whole_words else ahocorasick_rs.MatchKind.LeftmostLongest,
            store_patterns=False,
        )
        self._completions = Completions(self._terms)
        self.longest = max(map(len, self._terms), default=0)

    def scan(self, text: str, start: int = 0) -> list[Match]:
        normal = compose_letters(normalise_text(text))
        return [
            Match(*normal.span(first, end), "words")
            for first, end in self._spans(normal, normal.position(start))
        ]  # fmt: skip

    def _spans(self, normal: Normal, start: int) -> Iterator[tuple[int, int]]:
        """The terms that begin at `start` or later; the longest of those that begin at the same place."""
        text = _lower_case(normal.text)
        last = -1
        for first, end in sorted(self._candidates(text, start), key=lambda span: (span[0], -span[1])):
            if first >= last:
                last = end
                yield first, end

    def _candidates(self, text: str, start: int) -> Iterator[tuple[int, int]]:
        offset = max(0, start - 1) if self._whole_words else start
        part = text[offset:] if offset else text
        for _, first, end in self._automaton.find_matches_as_indexes(part, overlapping=self._whole_words):
            if first + offset >= start and (not self._whole_words or _is_whole(part, first, end)):
                yield first + offset, end + offset

    def pending_start(self, text: str, start: int = 0) -> int:
        normal = compose_letters(normalise_text(text))
        ends = self._completions.of(_lower_case(normal.text))
        first = min(self._pending_start(end, normal.position(start)) for end in ends)
        return normal.original(first, len(text)) if first < len(normal.text) else len(text)

    def _pending_start(self, text: str, start: int) -> int:
        for place in range(max(start, len(text) - self.longest), len(text)):
            if text[place : place + BEGINNING] in self._beginnings and self._may_become_term(text, place):
                return place
        return len(text)

    def _may_become_term(self, text: str, place: int) -> bool:
        suffix = text[place:]
        if self._whole_words and place and _is_word(text[place - 1]) and _is_word(text[place]):
            return False
        index = bisect_left(self._terms, suffix)
        return index < len(self._terms) and self._terms[index].startswith(suffix)


def compile_words(members: Mapping[str, object]) -> Words:
    parameters = Parameters(members, names=("words", "wholeWords"))
    terms = parameters.texts("words", most=MAX_TERMS, longest=MAX_TERM_LENGTH, required=True)
    return Words(terms, whole_words=parameters.flag("wholeWords", default=True))


def _fold(term: str) -> str:
    return _lower_case(compose_letters(normalise_text(term.strip())).text)


def _lower_case(text: str) -> str:
    """In lower case, with as many characters."""
    lower = text.lower().replace("ς", "σ")  # which of both it is depends on what follows
    if len(lower) == len(text):
        return lower
    return "".join(one if len(one) == 1 else character for character in text for one in [character.lower()])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_whole(text: str, start: int, end: int) -> bool:
    before = start > 0 and _is_word(text[start - 1]) and _is_word(text[start])
    return not before and not (end < len(text) and _is_word(text[end]) and _is_word(text[end - 1]))
