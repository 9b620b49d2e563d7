"""Which files a run need not load: each of its processes collects the tests of all files."""

import re
from functools import cache
from pathlib import Path

_MARKS_OF_FILE = re.compile(r"^pytestmark = (\[.*?\]|[^\n\[]+)$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"pytest\.mark\.(\w+)")


def has_no_test_for(expression: str, file: Path) -> bool:
    """Whether the expression of -m excludes a marker that every test of this file has."""
    return not excluded_markers(expression).isdisjoint(_MARK.findall(_marks_of(file)))


@cache
def excluded_markers(expression: str) -> frozenset[str]:
    """The markers that no chosen test has: each `not marker` of an expression that joins its terms by `and` alone."""
    outside = re.sub(r"\([^()]*\)", "()", expression)
    if re.search(r"\bor\b", outside):
        return frozenset()
    return frozenset(re.findall(r"(?:^|\band )not (\w+)(?= and |$)", outside.strip()))


def _marks_of(file: Path) -> str:
    marks = _MARKS_OF_FILE.search(file.read_text())
    return marks[1] if marks else ""
