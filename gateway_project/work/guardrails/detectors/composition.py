"""Joins each letter and its accents into one character (Unicode's form NFC), as most texts and word lists have them.

Some systems write accents as separate characters. Readers see no difference.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from unicodedata import decomposition, normalize

from gateway_project.work.guardrails.detectors.normalisation import Normal

MAX_MARKS = 4  # accents of one letter; the time to join them grows with the square of their number
_WITH_MARKS = range(0xC0, 0x3100)  # all letters that are composed of two characters, but for Korean ones
_KOREAN = "\u1161-\u1175\u11a8-\u11c2"  # vowels and last consonants


def compose_letters(normal: Normal) -> Normal:
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
    """Says what the last letter of an unfinished text may become if an accent follows.

    Only the letters of the given texts, such as the terms that are looked for, are considered.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._letters: dict[str, set[str]] = {}
        for letter in {character for text in texts if not text.isascii() for character in text + text.swapcase()}:
            for beginning in _letters_before_accents(letter):
                self._letters.setdefault(beginning, set()).add(letter)

    def of(self, text: str) -> list[str]:
        """The text itself, and once more with each letter that its last one may become."""
        return [text, *(text[:-1] + letter for letter in self._letters.get(text[-1:], ()))]


def _letters_before_accents(letter: str) -> Iterator[str]:
    """The letters that become this one with more accents: for "ệ" these are "e" and "ẹ"."""
    parts = normalize("NFD", letter)
    return (begin for size in range(1, len(parts)) if len(begin := normalize("NFC", parts[:size])) == 1)


@cache
def _marks() -> re.Pattern[str]:
    """Finds the characters that may join the letter before them."""
    letters = (chr(code) for code in _WITH_MARKS)
    pairs = (decomposition(letter).split() for letter in letters if normalize("NFC", letter) == letter)
    marks = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    return re.compile(f"[{''.join(sorted(marks))}{_KOREAN}]{{1,{MAX_MARKS}}}")
