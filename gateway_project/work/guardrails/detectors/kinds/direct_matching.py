"""RE2 without the library's own objects for matches, which would take most of the time.

Below its public classes the library has one function that returns offsets alone. If a version of the library has it no
more, its public functions take its place, and searching takes twice as long.
"""

from collections.abc import Callable
from functools import partial

import re2

# Of a pattern: a text, and the offsets between which it is searched; the spans of the match and of its groups.
# (-1, -1) stands for none.
Spans = list[tuple[int, int]]
Matcher = Callable[[bytes, int, int], Spans]


def matcher(pattern: "re2._Regexp", *, at_start: bool = False) -> Matcher:
    """What searches with a pattern of bytes; with `at_start` for matches that begin at the first offset."""
    return _direct_matcher(pattern, at_start=at_start) if IS_DIRECT else public_matcher(pattern, at_start=at_start)


def public_matcher(pattern: "re2._Regexp", *, at_start: bool = False) -> Matcher:
    """The same through public functions."""
    search = pattern.match if at_start else pattern.search
    none = [(-1, -1)] * (pattern.groups + 1)

    def match(text: bytes, start: int, end: int) -> Spans:
        result = search(text, start, end)
        return none if result is None else [result.span(group) for group in range(pattern.groups + 1)]

    return match


def _direct_matcher(pattern: "re2._Regexp", *, at_start: bool) -> Matcher:
    from re2 import _re2

    anchors = _re2.RE2.Anchor
    anchor, match = anchors.ANCHOR_START if at_start else anchors.UNANCHORED, pattern._regexp.Match
    return partial(match, anchor)


def _is_direct() -> bool:
    """Whether the function below the public classes is there, and says what it has to."""
    try:
        pattern = re2.compile(rb"(b)c")
        search, match = _direct_matcher(pattern, at_start=False), _direct_matcher(pattern, at_start=True)
        spans = search(b"abcbc", 0, 5), search(b"abcbc", 2, 5), match(b"abcbc", 0, 5)
    except (AttributeError, ImportError, TypeError, ValueError):
        return False
    return spans == ([(1, 3), (1, 2)], [(3, 5), (3, 4)], [(-1, -1), (-1, -1)])


IS_DIRECT = _is_direct()
