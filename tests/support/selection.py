"""Which files a run need not load: each of its processes collects the tests of all files."""

import ast
import re
from functools import cache
from pathlib import Path

_MARKS_OF_FILE = re.compile(r"^pytestmark = (\[.*?\]|[^\n\[]+)$", re.MULTILINE | re.DOTALL)


def has_no_test_for(expression: str, file: Path) -> bool:
    """Whether the expression of -m excludes a marker that every test of this file has."""
    return not excluded_markers(expression).isdisjoint(_marks_of(file.read_text()))


@cache
def excluded_markers(expression: str) -> frozenset[str]:
    """The markers that no chosen test has: each `not marker` of an expression that joins its terms by `and` alone."""
    outside = re.sub(r"\([^()]*\)", "()", expression)
    if re.search(r"\bor\b", outside):
        return frozenset()
    return frozenset(re.findall(r"(?:^|\band )not (\w+)(?= and |$)", outside.strip()))


def _marks_of(text: str) -> list[str]:
    """The names of the markers in a module's `pytestmark`; not of those inside them, which single cases have."""
    if not (marks := _MARKS_OF_FILE.search(text)):
        return []
    try:
        value = ast.parse(marks[1], mode="eval").body
    except SyntaxError:  # cut short by the pattern
        return []
    nodes = value.elts if isinstance(value, ast.List) else [value]
    functions = [node.func if isinstance(node, ast.Call) else node for node in nodes]
    return [function.attr for function in functions if isinstance(function, ast.Attribute)]
