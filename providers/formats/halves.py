"""Characters cut in two: those beyond U+FFFF are escaped as pairs, and two pieces of a stream may part one."""

import re
from dataclasses import fields, replace

from providers.formats.neutral import CallDelta, Citation, Delta, ReasoningDelta, RefusalDelta, TextDelta

# A half is no character: until the other one comes, one of the last plane of private use stands for it.
MARKS, SURROGATES = 0x10F000, 0xD000
MARK = re.compile("[\U0010f800-\U0010ffff]")
ENDS_A_PAIR = re.compile("(?<=[\U0010f800-\U0010fbff])[\U0010fc00-\U0010ffff]")
LAST_FIRST_HALF = "\U0010fbff"
LOST = "\ufffd"
TEXT = {TextDelta: "text", ReasoningDelta: "text", RefusalDelta: "text", CallDelta: "arguments"}


class Halves:
    """Joins the halves in what a stream says: a first one waits for what follows; one that stays alone is U+FFFD."""

    def __init__(self) -> None:
        self._met = False
        self._waiting: Delta | None = None  # holds a first half alone

    def mark(self, digits: bytes) -> bytes:
        """What is to stand for a half of which these are the last three digits."""
        self._met = True
        return chr(MARKS + int(digits, 16)).encode()

    def whole(self, text: str) -> str:
        """A text that no other piece continues."""
        return _whole(text) if self._met else text

    def joined(self, deltas: list[Delta]) -> list[Delta]:
        """The same with whole characters."""
        return [whole for delta in deltas for whole in self._joined(delta)] if self._met else deltas

    def _joined(self, delta: Delta) -> list[Delta]:
        delta = _with_whole_names(delta)
        if isinstance(delta, Citation):  # stands between two texts, and parts them no more than an empty one
            return [delta]
        waiting, self._waiting = self._waiting, None
        name = TEXT.get(type(delta), "")
        text = getattr(delta, name, "")
        told: list[Delta] = []
        if waiting is not None and _goes_on(waiting, delta):
            text = getattr(waiting, name) + text
        elif waiting is not None:
            told.append(replace(waiting, **{TEXT[type(waiting)]: LOST}))
        if not text:
            return [*told, delta]
        if MARK.match(text[-1]) and text[-1] <= LAST_FIRST_HALF and not getattr(delta, "signature", ""):
            self._waiting = _holding(delta, text[-1])
            text = text[:-1]
        return [*told, replace(delta, **{name: _whole(text)})]


def joining(text: str, before: str) -> str:
    """The text with one character for each that will be told of it, where this one stood before it."""
    return ENDS_A_PAIR.sub("", before + text)[len(before) :]


def _with_whole_names(delta: Delta) -> Delta:
    """The same where what is said in one piece, as titles and addresses are, holds no half any more."""
    names = [field.name for field in fields(delta) if field.name != TEXT.get(type(delta))]
    said = {name: text for name in names if isinstance(text := getattr(delta, name), str) and MARK.search(text)}
    return replace(delta, **{name: _whole(text) for name, text in said.items()}) if said else delta


def _goes_on(waiting: Delta, delta: Delta) -> bool:
    same = type(waiting) is type(delta) and getattr(waiting, "index", 0) == getattr(delta, "index", 0)
    return same and not getattr(delta, "begins", False)


def _holding(delta: Delta, half: str) -> Delta:
    if isinstance(delta, ReasoningDelta):
        return replace(delta, text=half, begins=False)
    return replace(delta, **{TEXT[type(delta)]: half})


def _whole(text: str) -> str:
    halves = MARK.sub(lambda found: chr(ord(found[0]) - MARKS + SURROGATES), text)
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
