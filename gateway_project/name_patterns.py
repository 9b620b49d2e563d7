"""Patterns of model names: RE2, which takes linear time whatever the pattern, or refuses it."""

from typing import Protocol

import re2

from gateway_project.errors import ValidationError

# Room for two hundred letters of any alphabet; a product of nested repetitions is refused, not compiled.
MAX_BYTES = 4 * 1024 * 1024


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


def _reason(error: Exception) -> str:
    reason = error.args[0] if isinstance(error, re2.error) and error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
