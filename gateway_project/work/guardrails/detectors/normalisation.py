"""Texts as a reader sees them: without invisible characters, look-alikes of ASCII characters as ASCII.

Offsets stay those of the original text. A text in ASCII is not touched.
"""

from bisect import bisect_left
from typing import NamedTuple

# Zero width, marks of direction, soft hyphen, variation selectors, invisible operators, tags.
INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2070),
            *range(0xFE00, 0xFE10),
            *range(0xE0000, 0xE0080),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
_SAME = {
    # Cyrillic and Greek letters that look like Latin ones
    "АВЕЅІЈКМНОРСТХУԚԜ": "ABESIJKMHOPCTXYQW",
    "асԁеһіјӏорԛѕԝхуѵ": "acdehijlopqswxyv",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹ": "ABEZHIKMNOPTYXC",
    "αικνορυχϲ": "aikvopuxc",
    # Armenian, Latin letters with another form
    "օսոհցղ": "ounhgn",
    "ıɡɑƖʋ": "igalv",
    # punctuation
    "‐‑‒–—―−﹣": "--------",
    "․。｡": "...",
    "⁄∕": "//",
    "∶ː": "::",
    "‘’‚‛′": "'''''",
    "“”„‟″": '"""""',
    # digits of Arabic, Persian, Devanagari and Bengali
    "٠١٢٣٤٥٦٧٨٩": "0123456789",
    "۰۱۲۳۴۵۶۷۸۹": "0123456789",
    "०१२३४५६७८९": "0123456789",
    "০১২৩৪৫৬৭৮৯": "0123456789",
    # spaces
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000": " " * 16,
}


def _mathematical() -> dict[int, str]:
    """Bold, italic, script and the other Latin alphabets and digits of mathematics."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    table = {0x1D400 + place: letters[place % 52] for place in range(13 * 52)}
    table.update({0x1D7CE + place: str(place % 10) for place in range(50)})
    table.update({0x24B6 + place: letters[place] for place in range(52)})
    return table


LOOK_ALIKES: dict[int, str] = {
    **{ord(one): other for ones, others in _SAME.items() for one, other in zip(ones, others, strict=True)},
    **{0xFF01 + place: chr(0x21 + place) for place in range(94)},  # full width
    **_mathematical(),
}
_TABLE: dict[int, str | None] = {**LOOK_ALIKES, **{ord(one): None for one in INVISIBLE}}


class Normal(NamedTuple):
    """A normalised text; `offsets` are those of its characters in the original, None if they are the same.

    `ends` are those of the last character that each stands for, None if each stands for one.
    """

    text: str
    offsets: list[int] | None = None
    ends: list[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The part of the original that a part of this text stands for."""
        if self.offsets is None or start == end:
            return start, end
        return self.offsets[start], (self.ends or self.offsets)[end - 1] + 1

    def position(self, offset: int) -> int:
        """The place in this text of an offset in the original."""
        if self.offsets is None:
            return offset
        return bisect_left(self.offsets, offset)

    def original(self, position: int, length: int) -> int:
        """The offset in the original (of a length) of a place in this text."""
        if self.offsets is None:
            return position
        return self.offsets[position] if position < len(self.offsets) else length


def normalise_text(text: str) -> Normal:
    """The text for matching."""
    if text.isascii():
        return Normal(text)
    normal = text.translate(_TABLE)
    if len(normal) == len(text):
        return Normal(normal)
    return Normal(normal, [offset for offset, character in enumerate(text) if character not in INVISIBLE])
