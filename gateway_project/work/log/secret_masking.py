"""Masks credentials in text that is kept: what looks like a key, a token or a password never reaches the log.

Two kinds are recognised: values by their form (keys of this gateway and of known vendors, JSON Web Tokens, private
keys in PEM), and string members of JSON by their name (`api_key`, `password`, …), also in JSON inside a string, as the
arguments of tools are. Both are also recognised in JSON's escapes, and in a stream where they are split over its
events. Not recognised: a key that its writer split or encoded in another way.

RE2 searches in linear time, whatever the text is; the other patterns cannot backtrack.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import re2

MASK = b"***"
# What is looked at beyond the part that is kept: a credential that the end of that part cuts in two is masked too.
LOOK_AHEAD_BYTES = 16 * 1024

# Where a word begins: also after an escape such as \n, which ends in a letter.
_BEGIN = r"(?:\\(?:[bfnrt]|u[0-9a-fA-F]{4})|\b)"
# Each has one group, which stays readable: it says what was masked.
_BY_FORM = (
    rf"({_BEGIN}svc_)[0-9A-Za-z]{{10}}_[0-9A-Za-z]{{10,}}",
    rf"({_BEGIN}sk-(?:ant-|proj-|or-)?)[\w-]{{16,}}",
    rf"({_BEGIN}(?:AKIA|ASIA))[0-9A-Z]{{16}}\b",
    rf"({_BEGIN}AIza)[\w-]{{30,}}",
    rf"({_BEGIN}(?:gh[opsru]_|github_pat_|glpat-|hf_|gsk_|xai-|pplx-))[\w-]{{20,}}",
    rf"({_BEGIN}xox[a-z]-)[\w-]{{10,}}",
    rf"({_BEGIN}eyJ)[\w-]{{8,}}\.eyJ[\w-]{{8,}}(?:\.[\w-]*)?",
    r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)(?:[^\"\\]|\\[^\"])*",
    rf"({_BEGIN}(?i:bearer|basic)(?:\s|\\[nt])+)[\w.~+/=-]{{16,}}",
)
_NAMES = (
    r"[\w.-]*(?:api[_-]?key|authorization|passw(?:or)?d|passphrase|secret|token|credential|private[_-]?key)"
    r"(?:[_-]?(?:access[_-]?)?key)?"
)
_BY_NAME = (
    rf'((?i:"{_NAMES}")\s*:\s*")(?:[^"\\]|\\.)+',
    rf'((?i:\\+"{_NAMES}\\+")\s*:\s*\\+")(?:[^"\\]|\\[^"\\])+',
)


def _pattern(*parts: str) -> "re2._Regexp":
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes: a body need not be UTF-8
    return re2.compile("|".join(f"(?:{part})" for part in parts).encode(), options)


_SECRET = _pattern(*_BY_FORM, *_BY_NAME)
# A printable ASCII character in JSON's escapes, other than a quote and a backslash; no client's library writes these.
_ESCAPE = _pattern(r"\\+u00(2[013-9a-fA-F]|[346][0-9a-fA-F]|5[0-9abd-fABD-F]|7[0-9a-eA-E])")
# The members that hold the pieces of an answer in the streams of all formats and doors; the contract of formats tests
# that those of every recorded stream are here.
NAMES_OF_PIECES = (
    *(b"content", b"text", b"delta", b"arguments", b"partial_json", b"input"),
    *(b"thinking", b"reasoning", b"reasoning_content", b"refusal", b"tool_plan"),
)
# One each: what begins with a constant is searched for several times as fast.
_PIECES = {
    name: re.compile(rb'"%b"\s*+:\s*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"' % name, re.DOTALL) for name in NAMES_OF_PIECES
}
# Where there are several answers, calls or blocks, their pieces may take turns.
_OTHER_INDEX = re.compile(rb'index"\s*+:\s*+[1-9]')
_INDEX = re.compile(rb'index"\s*+:\s*+(\d++)')

Span = tuple[int, int]


def mask_secrets(text: bytes, max_bytes: int, *, is_stream: bool = False) -> bytes:
    """The text with `***` in place of credentials; of a long one at least its first `max_bytes`."""
    window = text[: max_bytes + LOOK_AHEAD_BYTES]
    readable = _ESCAPE.sub(_unescape_match, window) if b"\\u00" in window else window
    masked = _mask_pieces(readable) if is_stream else readable
    if _SECRET.search(masked):
        masked = _SECRET.sub(_mask_match, masked)
    return window if masked is readable else masked


def has_secrets(text: bytes) -> bool:
    """Whether mask_secrets() may change a text, which is no stream."""
    return b"\\u00" in text or _SECRET.search(text) is not None


def mask_secrets_in_message(message: str) -> str:
    """A message with `***` in place of credentials."""
    return mask_secrets(message.encode(errors="replace"), len(message) * 4).decode(errors="replace")


def without_secrets(text: str) -> str:
    """The text with a `*` in place of each character of a credential: all others stay where they are."""
    for first, last in map(_secret_span, _SECRET.finditer(text.encode("latin-1", "replace"))):
        text = f"{text[:first]}{'*' * (last - first)}{text[last:]}"
    return text


def _mask_match(match: "re2._Match") -> bytes:
    secret: bytes = match[0]
    return secret[: _secret_span(match)[0] - match.start()] + MASK


def _secret_span(match: "re2._Match") -> Span:
    """The part of a match that is masked: what follows its group."""
    return next(match.end(number) for number, group in enumerate(match.groups(), 1) if group is not None), match.end()


def _unescape_match(match: "re2._Match") -> bytes:
    return bytes([int(match[1], 16)])


def _mask_pieces(events: bytes) -> bytes:
    """The events of a stream without the credentials that several of them hold together."""
    names = [name for name in NAMES_OF_PIECES if b'"%b"' % name in events]
    joined = [b"".join(_PIECES[name].findall(events)) for name in names]
    if not _OTHER_INDEX.search(events) and not any(map(_SECRET.search, joined)):
        return events
    edits = sorted(edit for spans in _spans_by_channel(events, names) for edit in _edits(events, spans))
    parts: list[bytes] = []
    position = 0
    for begin, end, text in edits:
        parts += events[position:begin], text
        position = end
    return b"".join([*parts, events[position:]]) if edits else events


def _spans_by_channel(events: bytes, names: Sequence[bytes]) -> Sequence[list[Span]]:
    """Where the pieces of each answer, call or block stand: by the name of the member and the indexes in the event."""
    channels: dict[tuple[bytes, ...], list[Span]] = {}
    for start, end in _lines(events):
        indexes = _INDEX.findall(events, start, end)
        for name in names:
            for piece in _PIECES[name].finditer(events, start, end):
                channels.setdefault((name, *indexes), []).append(piece.span(1))
    return list(channels.values())


def _lines(events: bytes) -> Iterator[Span]:
    start = 0
    while start < len(events):
        end = events.find(b"\n", start) + 1 or len(events)
        yield start, end
        start = end


def _edits(events: bytes, spans: Sequence[Span]) -> Iterator[tuple[int, int, bytes]]:
    """What to replace in the events so that these pieces hold no credential together."""
    joined = b"".join([events[begin:end] for begin, end in spans])
    offsets = [0, *accumulate(end - begin for begin, end in spans)]
    for match in _SECRET.finditer(joined):
        begin, end = _secret_span(match)
        mask = MASK
        for number in range(bisect_right(offsets, begin) - 1, len(spans)):
            if offsets[number] >= end:
                break
            at = spans[number][0] - offsets[number]
            yield at + max(begin, offsets[number]), at + min(end, offsets[number + 1]), mask
            mask = b""
