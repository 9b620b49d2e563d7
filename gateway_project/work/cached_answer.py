"""How a cached answer is written: one line of JSON about it, then its bytes. Read back as hostile data."""

import orjson

from gateway_project.work.exchange import Stored
from providers.formats.dropped import MAX_HEADER_LENGTH
from providers.formats.usage import count

VERSION = 3
MOST_LETTERS = 64  # of a finish reason, in the log's column


def pack(stored: Stored) -> bytes:
    """The bytes that the shared state keeps."""
    about = [
        VERSION,
        stored.content_type,
        stored.chunks,
        stored.provider_id,
        stored.provider,
        stored.usage,
        stored.estimated,
        stored.finish_reason,
        stored.provider_finish_reason,
        stored.dropped,
    ]
    return orjson.dumps(about) + b"\n" + stored.body


def unpack(value: bytes) -> Stored | None:
    """The answer in a cached value; None for anything that pack() did not write, which is then a miss."""
    line, newline, body = value.partition(b"\n")
    try:
        about = orjson.loads(line)
        version, content_type, chunks, provider_id, provider, usage, estimated, finish, provider_finish, dropped = about
        "".join((content_type, provider, finish, provider_finish, dropped))  # a TypeError where one is no text
    except (ValueError, TypeError):
        return None
    good = version == VERSION and newline and _is_count(provider_id)
    if not good or not _is_printable(content_type + provider) or not (content_type + dropped).isascii():
        return None
    if len(finish) > MOST_LETTERS or not dropped.isprintable() or len(dropped) > MAX_HEADER_LENGTH:
        return None
    if not _is_usage(usage) or type(estimated) is not bool or not _are_chunks(chunks, len(body)):
        return None
    return Stored(body, content_type, chunks, provider_id, provider, usage, estimated, finish, provider_finish, dropped)


def _is_printable(text: str) -> bool:
    """Whether the text can be a header's value."""
    return text.isprintable() and len(text) <= 300


def _is_count(value: object) -> bool:
    """Whether this is a number that a column of the log can hold."""
    return type(value) is int and 0 <= value < 2**53


def _is_usage(value: object) -> bool:
    """Whether this is None or a list of five counts, where those that nobody reported are None."""
    if value is None:
        return True
    return type(value) is list and len(value) == 5 and all(item is None or count(item) is not None for item in value)


def _are_chunks(value: object, size: int) -> bool:
    """Whether this is None or a list of counts that add up to so many bytes."""
    if value is None:
        return True
    return type(value) is list and all(map(_is_count, value)) and sum(value) == size
