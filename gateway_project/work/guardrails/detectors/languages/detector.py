"""The part of the type `topic` that finds sentences in other languages than those allowed. Linear time, no library."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import re2

from gateway_project.work.guardrails.detectors.base import CONTEXT, Detector, Match
from gateway_project.work.guardrails.detectors.kinds.direct_matching import matcher
from gateway_project.work.guardrails.detectors.languages.frequent_words import (
    ARABIC,
    CYRILLIC,
    ENDINGS,
    LATIN,
    split_words,
    weights_of,
)

CATEGORY = "language"
# Of a longer sentence the beginning decides: the rest of a stream is not held for it.
MAX_SENTENCE = 1000
# Evidence is counted in words that only one language has.
MIN_EVIDENCE = {"la": 2.0, "cy": 1.0, "ar": 1.0}  # by script: fewer languages share the others
MIN_RATIO = 2.0  # of the evidence for another language to that for an allowed one
MIN_LETTERS, MIN_SIGNS = 12, 6  # of another script: letters, or signs for syllables and words
SURE_SIGNS = 11  # so many of them without kana are not Japanese
MAX_SYMBOLS = 1 / 12  # of the characters; what has more is code
SEVERAL = "la", "cy", "ar"  # scripts of several languages, whose words decide
# The first character of each script, and which it is; "" for characters that are no letters of a language here.
BLOCKS = (
    *((0x0041, "la"), (0x0370, "el"), (0x0400, "cy"), (0x0530, "hy"), (0x0590, "he"), (0x0600, "ar"), (0x0700, "")),
    *((0x0750, "ar"), (0x0780, ""), (0x0900, "hi"), (0x0980, "bn"), (0x0A00, "pa"), (0x0A80, "gu"), (0x0B00, "")),
    *((0x0B80, "ta"), (0x0C00, "te"), (0x0C80, "kn"), (0x0D00, "ml"), (0x0D80, "si"), (0x0E00, "th"), (0x0E80, "lo")),
    *((0x0F00, ""), (0x1000, "my"), (0x10A0, "ka"), (0x1100, "ko"), (0x1200, "am"), (0x13A0, ""), (0x1780, "km")),
    *((0x1800, ""), (0x1E00, "la"), (0x1F00, "el"), (0x2000, ""), (0x3040, "ja"), (0x3100, ""), (0x3130, "ko")),
    *((0x3190, ""), (0x3400, "zh"), (0xA000, ""), (0xAC00, "ko"), (0xD7B0, ""), (0xFB50, "ar"), (0xFE00, "")),
    *((0xFE70, "ar"), (0xFF00, ""), (0x20000, "zh"), (0x32000, "")),
)  # fmt: skip
OWN_SCRIPTS = sorted({name for _, name in BLOCKS if name and name not in SEVERAL})
LANGUAGES = tuple(sorted([*LATIN, *CYRILLIC, *ARABIC, *OWN_SCRIPTS]))
SCRIPT_OF_LANGUAGE = {
    **{name: name for name in OWN_SCRIPTS},
    **{name: script for script, words in zip(SEVERAL, (LATIN, CYRILLIC, ARABIC), strict=True) for name in words},
}
MAX_BYTES = 64 * 1024 * 1024
SIGNS = ("zh", "ja", "ko")

# Letters that few languages have; each word with one is half a word of theirs.
LETTERS: Mapping[str, str] = {
    "de": "ßäöü", "fr": "çœêèù", "es": "ñ", "it": "èùìò", "pt": "ãõçê", "sv": "åäö", "da": "åæø", "no": "åæø",
    "fi": "äö", "pl": "łąężźśńć", "cs": "řůěčšžý", "hu": "őűöü", "ro": "șțşţă", "hr": "đćčšž", "tr": "ğışçöü",
    "vi": "ăêđơưý" + "".join(map(chr, range(0x1EA0, 0x1EFA))),
    "uk": "іїєґ", "ru": "ыэё", "bg": "ъ", "ar": "ةىيكإأ", "fa": "پچژگکی",
}  # fmt: skip
MIN_WORD = 6  # letters of a word whose ending says something
_WORD_WEIGHTS = {
    **weights_of(split_words(LATIN)),
    **weights_of(split_words(CYRILLIC)),
    **weights_of(split_words(ARABIC)),
}
_LETTER_WEIGHTS, _ENDING_WEIGHTS = weights_of(LETTERS, 0.5), weights_of(split_words(ENDINGS), 0.5)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_KANA = re.compile(r"[\u3041-\u30ff]")
_SYMBOL = re.compile(r"[{}()\[\]=<>;|&\\_$\"]")
# Some stops end a sentence only where white space follows. What follows of both belongs to the stop: a million are one.
# CONTEXT characters of white space end a sentence, too: a stream knows no more of what was before its next piece.
_STOP = re.compile(rf"(?:[.!?…]\s|[\n。！？।]|(?<!\s)\s{{{CONTEXT}}})(?:[\s。！？।]++|[.!?…]\s)*+")
_NOT_LATIN = re.compile(r"[\u0370-\u1dff\u1f00-\U0010ffff]")


class Languages(Detector):
    """Sentences in another language than those allowed; those that say too little pass."""

    longest = MAX_SENTENCE

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = frozenset(allowed)
        self._scripts = {SCRIPT_OF_LANGUAGE[name] for name in allowed}
        self._may_be_other = matcher(_compiled_words(self._allowed))

    def scan(self, text: str, start: int = 0) -> list[Match]:
        return [
            Match(first, first + len(sentence), CATEGORY)
            for first, end in _sentences(text, start)
            if end - first >= MIN_SIGNS
            and self._may_have_other(sentence := text[first : min(end, first + MAX_SENTENCE)].rstrip())
            and self._is_other(sentence)
        ]

    def pending_start(self, text: str, start: int = 0) -> int:
        """Where the last sentence begins, unless it is known to be long enough to be judged."""
        first = max((first for first, _ in _sentences(text, start)), default=len(text))
        return len(text) if len(text) - first >= MAX_SENTENCE else first

    def _may_have_other(self, sentence: str) -> bool:
        """Whether two frequent words of other languages alone are there; not known of a sentence that is not ASCII."""
        return not sentence.isascii() or self._may_be_other(sentence.encode(), 0, len(sentence))[0][0] >= 0

    def _is_other(self, sentence: str) -> bool:
        words = _WORD.findall(sentence.lower().replace("’", "'"))
        is_latin = _NOT_LATIN.search(sentence) is None
        script, letters = ("la", len(sentence)) if is_latin else _main_script(words)
        if script in SEVERAL and (script == "la" or script in self._scripts):
            return self._has_other(words, script) and not _is_code(sentence)
        if script in ("zh", "ja"):
            return letters >= MIN_SIGNS and self._allowed.isdisjoint(_east_asian(sentence, letters))
        return script not in ("", *self._scripts) and letters >= (MIN_SIGNS if script in SIGNS else MIN_LETTERS)

    def _has_other(self, words: list[str], script: str) -> bool:
        evidence = _evidence(words)
        others = max((evidence[name] for name in evidence if name not in self._allowed), default=0.0)
        allowed = max((evidence[name] for name in self._allowed if name in evidence), default=0.0)
        return others >= MIN_EVIDENCE[script] and others >= MIN_RATIO * allowed


def _sentences(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Where the sentences begin and end that begin at `start` or later; before it, only CONTEXT is looked at."""
    first = 0 if start == 0 else -1
    for stop in _STOP.finditer(text, max(0, start - CONTEXT)):
        if first >= 0:
            yield first, stop.start() + 1
        if stop.end() >= start:
            first = stop.end()
    if first >= 0:
        yield first, len(text)


def _compiled_words(allowed: Collection[str]) -> "re2._Regexp":
    """Two of the frequent words of other languages that no allowed one has."""
    words = [
        word
        for word, weights in _WORD_WEIGHTS.items()
        if word.isascii() and not any(one in allowed for one, _ in weights)
    ]
    options = re2.Options()
    options.max_mem, options.case_sensitive, options.never_capture = MAX_BYTES, False, True
    word = rf"\b(?:{'|'.join(map(re2.escape, words))})\b"
    return re2.compile(f"(?s:{word}.*{word})".encode(), options)


def _main_script(words: list[str]) -> tuple[str, int]:
    """The script of most letters, and how many there are of it."""
    counts: Counter[str] = Counter()
    for word in words:
        counts["la" if word.isascii() else _script_of(word[0])] += len(word)
    return counts.most_common(1)[0] if counts else ("", 0)


def _script_of(character: str) -> str:
    code, script = ord(character), ""
    for first, name in BLOCKS:
        if code < first:
            break
        script = name
    return script


def _east_asian(sentence: str, letters: int) -> tuple[str, ...]:
    """Which of both a sentence may be: one with kana is Japanese."""
    kana = len(_KANA.findall(sentence))
    if 10 * kana >= letters:
        return ("ja",)
    return ("zh",) if letters >= SURE_SIGNS else ("zh", "ja")


def _evidence(words: list[str]) -> dict[str, float]:
    """What the words say for each language."""
    evidence: dict[str, float] = {}
    for word in words:
        for name, weight in _WORD_WEIGHTS.get(word) or _by_form(word):
            evidence[name] = evidence.get(name, 0.0) + weight
    return evidence


def _by_form(word: str) -> Sequence[tuple[str, float]]:
    """What the letters and the ending of a word say that is not frequent by itself."""
    ending = _ENDING_WEIGHTS.get(word[-3:], ()) if len(word) >= MIN_WORD else ()
    if word.isascii():
        return ending
    return [*ending, *(weight for letter in _LETTER_WEIGHTS.keys() & word for weight in _LETTER_WEIGHTS[letter])]


def _is_code(sentence: str) -> bool:
    return len(_SYMBOL.findall(sentence)) > MAX_SYMBOLS * len(sentence)
