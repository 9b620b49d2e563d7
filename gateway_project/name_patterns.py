"""Patterns of model names: RE2, which takes linear time whatever the pattern, or refuses it."""

from collections.abc import Collection, Iterator
from typing import Protocol

import re2

from gateway_project.errors import ValidationError

# Room for two hundred letters of any alphabet; a product of nested repetitions is refused, not compiled.
MAX_BYTES = 4 * 1024 * 1024
MAX_BYTES_TOGETHER = 64 * 1024 * 1024
# Says whether patterns were tried at once: where memory is short, RE2 reports no match at all.
EVERY_TEXT = "(?s).*"


class Pattern(Protocol):
    """A compiled pattern of model names."""

    @property
    def pattern(self) -> str: ...

    def fullmatch(self, text: str) -> object | None: ...


def compile_pattern(text: str, *, field: str = "regex") -> Pattern:
    """The compiled pattern, for fullmatch(); raises ValidationError with RE2's reason."""
    options = re2.Options()
    options.max_mem = MAX_BYTES
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ValidationError(f"this is not a valid RE2 pattern: {_reason(error)}.", field=field) from None


def names_by_pattern(texts: Collection[str], names: Collection[str]) -> dict[str, list[str]]:
    """Which of the names each of these patterns matches, all of which compile: for thousands of both at once."""
    matches: dict[str, list[str]] = {text: [] for text in texts}
    together = _compiled_together(list(matches))
    for name in names:
        for text in _find_matches(name, together, matches):
            matches[text].append(name)
    return matches


def _compiled_together(texts: list[str]) -> tuple[re2.Set, list[str]] | None:
    """The patterns as one, in the order of their indexes, with EVERY_TEXT at the end; None if that is too large."""
    options = re2.Options()
    options.max_mem = MAX_BYTES_TOGETHER
    options.log_errors = False
    together = re2.Set.FullMatchSet(options)
    try:
        for text in [*texts, EVERY_TEXT]:
            together.Add(text)
        together.Compile()
    except re2.error:
        return None
    return together, texts


def _find_matches(name: str, together: tuple[re2.Set, list[str]] | None, texts: Collection[str]) -> Iterator[str]:
    """The patterns that match the name; one after the other where they are too large to be tried at once."""
    indexes = set(together[0].Match(name) or ()) if together is not None else set()
    if together is not None and len(texts) in indexes:
        return (together[1][index] for index in indexes - {len(texts)})
    return (text for text in texts if compile_pattern(text).fullmatch(name))


def _reason(error: Exception) -> str:
    reason = error.args[0] if isinstance(error, re2.error) and error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
