"""A cached answer and its encoding: a line of JSON with its metadata, then its body. Decoding trusts nothing."""

from dataclasses import dataclass

import orjson

from providers.formats.dropped import MAX_HEADER_LENGTH
from providers.formats.usage import COUNTS, read_count

VERSION = 3
MAX_FINISH_REASON = 64  # the length of the log's column


@dataclass(slots=True)
class CachedAnswer:
    """An answer in the cache; `chunk_sizes` has the bytes of each chunk of a stream, None for a whole answer."""

    body: bytes
    content_type: str
    chunk_sizes: list[int] | None
    provider_id: int
    provider: str
    usage: list[int | None] | None = None
    estimated: bool = False  # whether (a part of) the usage was not reported by the provider
    finish_reason: str = ""
    provider_finish_reason: str = ""
    dropped: str = ""
    added: str = ""


def pack_answer(answer: CachedAnswer) -> bytes:
    """The bytes that the shared state keeps."""
    metadata = [
        VERSION,
        answer.content_type,
        answer.chunk_sizes,
        answer.provider_id,
        answer.provider,
        answer.usage,
        answer.estimated,
        answer.finish_reason,
        answer.provider_finish_reason,
        answer.dropped,
        *((answer.added,) if answer.added else ()),
    ]
    return orjson.dumps(metadata) + b"\n" + answer.body


def unpack_answer(value: bytes) -> CachedAnswer | None:
    """The answer in a cached value; None, which is a miss, for anything that pack_answer() did not write."""
    line, newline, body = value.partition(b"\n")
    try:
        version, *fields = orjson.loads(line)
        answer = CachedAnswer(body, *fields)
        reasons = answer.finish_reason, answer.provider_finish_reason
        "".join((answer.content_type, answer.provider, *reasons, answer.dropped, answer.added))  # raises TypeError
    except (ValueError, TypeError):  # another number of fields, or one that must be a string
        return None
    is_ours = version == VERSION and newline and _is_count(answer.provider_id)
    if not is_ours or not _is_printable(answer.content_type + answer.provider) or not answer.content_type.isascii():
        return None
    if len(answer.finish_reason) > MAX_FINISH_REASON or not _are_headers(answer.dropped, answer.added):
        return None
    if not _is_usage(answer.usage) or type(answer.estimated) is not bool:
        return None
    return answer if _are_chunk_sizes(answer.chunk_sizes, len(body)) else None


def _are_headers(*texts: str) -> bool:
    """Whether each of the texts may be the value of a header of our own; most answers have none."""
    present = [text for text in texts if text]
    return not present or all(
        text.isascii() and text.isprintable() and len(text) <= MAX_HEADER_LENGTH for text in present
    )


def _is_printable(text: str) -> bool:
    """Whether the text may be the value of Content-Type, or the name of a provider."""
    return text.isprintable() and len(text) <= 300


def _is_count(value: object) -> bool:
    """Whether this is a number that fits the log's columns."""
    return type(value) is int and 0 <= value < 2**53


def _is_usage(value: object) -> bool:
    """Whether this is None or a list of counts, each None if it was not reported; earlier answers have one less."""
    if value is None:
        return True
    if type(value) is not list or not COUNTS - 1 <= len(value) <= COUNTS:
        return False
    return None not in map(read_count, [item for item in value if item is not None])


def _are_chunk_sizes(value: object, size: int) -> bool:
    """Whether this is None or a list of counts with the sum `size`."""
    if value is None:
        return True
    return type(value) is list and all(map(_is_count, value)) and sum(value) == size
