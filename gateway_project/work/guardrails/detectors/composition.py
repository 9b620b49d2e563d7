"""Texts with each letter and its accents as one character, as most texts and nearly all lists of words have them.

Some systems write the accents as characters of their own. A reader sees no difference.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from unicodedata import decomposition, normalize

from gateway_project.work.guardrails.detectors.normalisation import Normal

MAX_MARKS = 4  # of one letter: to bring thousands into their order takes quadratic time
_WITH_MARKS = range(0xC0, 0x3100)  # all letters that are composed of two characters, but for Korean ones
_KOREAN = "\u1161-\u1175\u11a8-\u11c2"  # vowels and last consonants


def compose(normal: Normal) -> Normal:
    """The same text, in which a letter and its accents are one character if Unicode has one."""
    text, marks = normal.text, [] if normal.text.isascii() else list(_marks().finditer(normal.text))
    if not marks:
        return normal
    starts, ends = normal.offsets or range(len(text)), normal.ends or normal.offsets or range(len(text))
    pieces: list[str] = []
    offsets: list[int] = []
    lasts: list[int] = []
    position = 0
    for match in marks:
        if (first := match.start() - 1) < position:
            continue
        letters = normalize("NFC", text[first : match.end()])
        pieces += [text[position:first], letters]
        offsets += [*starts[position:first], *[starts[first]] * len(letters)]
        lasts += [*ends[position:first], *[ends[match.end() - 1]] * len(letters)]
        position = match.end()
    return Normal("".join([*pieces, text[position:]]), [*offsets, *starts[position:]], [*lasts, *ends[position:]])


class Completions:
    """What the end of a text may become, of the letters in some other texts, once an accent follows."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._letters: dict[str, set[str]] = {}
        for letter in {character for text in texts if not text.isascii() for character in text + text.swapcase()}:
            for beginning in _beginnings(letter):
                self._letters.setdefault(beginning, set()).add(letter)

    def of(self, text: str) -> list[str]:
        """The text, and it with each such letter for its last one."""
        return [text, *(text[:-1] + letter for letter in self._letters.get(text[-1:], ()))]


def _beginnings(letter: str) -> Iterator[str]:
    """The letter without its last accents, as one character: of a letter with two accents both."""
    parts = normalize("NFD", letter)
    return (begin for size in range(1, len(parts)) if len(begin := normalize("NFC", parts[:size])) == 1)


@cache
def _marks() -> re.Pattern[str]:
    """What may become one character with the letter before it."""
    letters = (chr(code) for code in _WITH_MARKS)
    pairs = (decomposition(letter).split() for letter in letters if normalize("NFC", letter) == letter)
    marks = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    return re.compile(f"[{''.join(sorted(marks))}{_KOREAN}]{{1,{MAX_MARKS}}}")
