"""The structure of a pattern in RE2's syntax: how long a match can be, and a pattern for the beginnings of matches.

A stream holds back only what may become a match: the end of the text that is a beginning of one. The language of a
pattern is what counts here; groups and laziness do not. RE2 itself has accepted the pattern before.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

MAX_DEPTH = 50
MAX_SERIES = 200


class TooComplexError(ValueError):
    """This module does not understand the pattern."""


@dataclass(frozen=True)
class Atom:
    """One character, or a place between two of them (width 0)."""

    source: str
    width: int = 1


@dataclass(frozen=True)
class Series:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    item: "Node"
    least: int
    most: int | None


Node: TypeAlias = Atom | Series | Choice | Repeat

_PLACE = re.compile(r"\^|\$|\\[AbBz]")
_CLASS_ITEM = r"\[:\^?\w+:\]|\\(?:x\{[0-9A-Fa-f]+\}|p\{\^?\w+\}|P\{\^?\w+\}|.)|[^\]\\]"
_CHARACTER = re.compile(
    rf"\[\^?(?:\]|{_CLASS_ITEM})(?:{_CLASS_ITEM})*\]"
    r"|\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP]\{\^?\w+\}|[pP]\w|[0-7]{1,3}|[^QECx])"
    r"|[^\\()|*+?\[^$]",
    re.DOTALL,
)
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_REPEAT = re.compile(r"(\*|\+|\?|\{(\d+)(,?)(\d*)\})\??")
_GROUP = re.compile(r"\((?:\?P?<\w+>|\?([imsU]*)(?:-([imsU]+))?([:)])|(?!\?))")


def parse_pattern(pattern: str, flags: str = "") -> Node:
    """The structure of a pattern that RE2 accepts; raises TooComplexError."""
    parser = _Parser(pattern)
    node = parser.choice(frozenset(flags), 0)
    if parser.at != len(pattern):
        raise TooComplexError(pattern)
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def choice(self, flags: frozenset[str], depth: int) -> Node:
        """What stands between parentheses, or the whole pattern."""
        if depth > MAX_DEPTH:
            raise TooComplexError(self.pattern)
        branches: list[list[Node]] = [[]]
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.pattern[self.at] == "|":
                self.at += 1
                branches.append([])
                continue
            flags = self._item(branches[-1], flags, depth)
        nodes = tuple(_sequence(branch) for branch in branches)
        return nodes[0] if len(nodes) == 1 else Choice(nodes)

    def _item(self, branch: list[Node], flags: frozenset[str], depth: int) -> frozenset[str]:
        """Add the next item with its repetition; returns the flags that hold from here on."""
        if self.pattern[self.at] == "(":
            return self._group(branch, flags, depth)
        if quoted := _QUOTED.match(self.pattern, self.at):
            self.at = quoted.end()
            branch.extend(Atom(_with_flags(re.escape(character), flags)) for character in quoted[1])
        else:
            branch.append(self._atom(flags))
        self._repetitions(branch)
        return flags

    def _group(self, branch: list[Node], flags: frozenset[str], depth: int) -> frozenset[str]:
        group = _GROUP.match(self.pattern, self.at)
        if group is None:
            raise TooComplexError(self.pattern)
        self.at = group.end()
        inner = (flags | set(group[1] or "")) - set(group[2] or "")
        if group[3] == ")":
            return inner
        branch.append(self.choice(inner, depth + 1))
        if self.pattern[self.at : self.at + 1] != ")":
            raise TooComplexError(self.pattern)
        self.at += 1
        self._repetitions(branch)
        return flags

    def _atom(self, flags: frozenset[str]) -> Node:
        place = _PLACE.match(self.pattern, self.at)
        token = place or _CHARACTER.match(self.pattern, self.at)
        if token is None:
            raise TooComplexError(self.pattern)
        self.at = token.end()
        return Atom(_with_flags(token[0], flags), 0 if place else 1)

    def _repetitions(self, branch: list[Node]) -> None:
        while branch and (token := _REPEAT.match(self.pattern, self.at)):
            self.at = token.end()
            branch.append(_repeat(branch.pop(), token))


def _repeat(item: Node, token: re.Match[str]) -> Node:
    if token[1] in ("*", "+", "?"):
        return Repeat(item, int(token[1] == "+"), 1 if token[1] == "?" else None)
    least = int(token[2])
    most = int(token[4]) if token[4] else (None if token[3] else least)
    return Repeat(item, least, most)


def _sequence(items: Sequence[Node]) -> Node:
    return items[0] if len(items) == 1 else Series(tuple(items))


def _with_flags(source: str, flags: frozenset[str]) -> str:
    names = "".join(sorted(flags - {"U"}))
    return f"(?{names}:{source})" if names else source


def longest_match(node: Node) -> int | None:
    """The most characters that a match can have; None if there is no bound."""
    match node:
        case Atom():
            return node.width
        case Repeat():
            return _times(longest_match(node.item), node.most)
        case Series():
            lengths = [longest_match(item) for item in node.items]
            return None if None in lengths else sum(length or 0 for length in lengths)
        case Choice():
            lengths = [longest_match(item) for item in node.items]
            return None if None in lengths else max(length or 0 for length in lengths)


def _times(length: int | None, most: int | None) -> int | None:
    if length == 0 or most == 0:
        return 0
    return None if length is None or most is None else length * most


def source(node: Node) -> str:
    """The pattern for the same texts."""
    match node:
        case Atom():
            return node.source
        case Repeat():
            return _repeat_item(node.item, node.least, node.most)
        case Series():
            return "".join(map(source, node.items))
        case Choice():
            return f"(?:{'|'.join(map(source, node.items))})"


def _repeat_item(item: Node, least: int, most: int | None) -> str:
    if most == 0:
        return ""
    bounds = f"{{{least},{'' if most is None else most}}}"
    if (least, most) == (0, None):
        bounds = "*"
    return f"(?:{source(item)}){bounds}"


def beginnings_of(node: Node) -> str:
    """The pattern for all beginnings of what a node matches: the empty text, all of it, and what lies between."""
    return _beginnings_before(node, "")


def _beginnings_before(node: Node, rest: str) -> str:
    """The same for a node that is followed by something whose beginnings are known."""
    match node:
        case Atom():
            return f"(?:{node.source}{rest})?" if node.width or rest else ""
        case Choice():
            inner = "|".join(map(beginnings_of, node.items))
            return f"(?:{inner}|{source(node)}{rest})" if rest else f"(?:{inner})"
        case Repeat():
            return _beginnings_of_repeat(node, rest)
        case Series():
            for item in reversed(_as_two_halves(node.items)):
                rest = _beginnings_before(item, rest)
            return rest


def _beginnings_of_repeat(node: Repeat, rest: str) -> str:
    if node.most == 0:
        return rest
    if isinstance(node.item, Atom) and rest:
        shorter = _repeat_item(node.item, 0, node.least - 1) if node.least > 1 else ""
        return f"(?:{_repeat_item(node.item, node.least, node.most)}{rest}|{shorter})"
    inner = _repeat_item(node.item, 0, None if node.most is None else node.most - 1) + beginnings_of(node.item)
    return f"(?:{inner}|{source(node)}{rest})" if rest else inner


def _as_two_halves(items: Sequence[Node]) -> Sequence[Node]:
    """A long series as a series of two, so that patterns do not nest deeper than RE2 allows."""
    if len(items) <= MAX_SERIES:
        return items
    middle = len(items) // 2
    return Series(tuple(items[:middle])), Series(tuple(items[middle:]))
