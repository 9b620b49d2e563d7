"""Masks credentials in text that is kept: what looks like a key, a token or a password never reaches the log.

Two kinds are recognised: values by their form (keys of this gateway and of known vendors, JSON Web Tokens, private
keys in PEM), and string members of JSON by their name (`api_key`, `password`, …), also in JSON inside a string, as the
arguments of tools are. Not recognised: a key that its writer split, encoded or escaped.

RE2 searches in linear time, whatever the text is.
"""

from collections.abc import Sequence

import re2

MASK = b"***"
# What is looked at beyond the part that is kept: a credential that the end of that part cuts in two is masked too.
LOOK_AHEAD_BYTES = 16 * 1024

# Each has one group, which stays readable: it says what was masked.
_BY_FORM = (
    r"\b(svc_)[0-9A-Za-z]{10}_[0-9A-Za-z]{10,}",
    r"\b(sk-(?:ant-|proj-|or-)?)[\w-]{16,}",
    r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\b(AIza)[\w-]{30,}",
    r"\b(gh[opsru]_|github_pat_|glpat-|hf_|gsk_|xai-|pplx-)[\w-]{20,}",
    r"\b(xox[a-z]-)[\w-]{10,}",
    r"\b(eyJ)[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?",
    r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)(?:[^\"\\]|\\[^\"])*",
    r"((?i:\b(?:bearer|basic))(?:\s|\\[nt])+)[\w.~+/=-]{16,}",
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


def mask_secrets(text: bytes, max_bytes: int) -> bytes:
    """The text with `***` in place of credentials; of a long one at least its first `max_bytes`."""
    return mask_secrets_in_each((text,), max_bytes)[0]


def mask_secrets_in_each(texts: Sequence[bytes], max_bytes: int) -> list[bytes]:
    """The same of several texts, searched together: RE2 hands the interpreter to another thread at every search."""
    windows = [text[: max_bytes + LOOK_AHEAD_BYTES] for text in texts]
    if _SECRET.search(b"\n".join(windows)) is None:  # no pattern can tell a line break from the end of a text
        return windows
    return [_SECRET.sub(_masked, window) for window in windows]


def mask_secrets_in_message(message: str) -> str:
    """A message with `***` in place of credentials."""
    return mask_secrets(message.encode(errors="replace"), len(message) * 4).decode(errors="replace")


def _masked(match: "re2._Match") -> bytes:
    return next(group for group in match.groups() if group is not None) + MASK
