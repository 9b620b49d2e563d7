"""How a cached answer is written: one line of JSON about it, then its bytes. Read back as hostile data."""

import orjson

from gateway_project.work.exchange import LONGEST_LIST, Stored

VERSION = 2
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
        stored.finish_reason,
        stored.provider_finish_reason,
        stored.dropped,
    ]
    return orjson.dumps(about) + b"\n" + stored.body


def unpack(value: bytes) -> Stored | None:
    """The answer in a cached value; None for anything that pack() did not write, which is then a miss."""
    line, newline, body = value.partition(b"\n")
    try:
        version, content_type, chunks, provider_id, provider, usage, *said = orjson.loads(line)
        finish, provider_finish, dropped = said
    except (ValueError, TypeError):
        return None
    texts = (content_type, provider, finish, provider_finish, dropped)
    good = version == VERSION and newline and _count(provider_id) and all(type(text) is str for text in texts)
    if not good or not _printable(content_type + provider) or not (content_type + dropped).isascii():
        return None
    if len(finish) > MOST_LETTERS or not dropped.isprintable() or len(dropped) > LONGEST_LIST:
        return None
    if not _numbers(usage, 5, None) or not _numbers(chunks, None, len(body)):
        return None
    return Stored(body, content_type, chunks, provider_id, provider, usage, finish, provider_finish, dropped)


def _printable(text: str) -> bool:
    """Whether the text can be a header's value."""
    return text.isprintable() and len(text) <= 300


def _count(value: object) -> bool:
    """Whether this is a number that a column of the log can hold."""
    return type(value) is int and 0 <= value < 2**53


def _numbers(value: object, length: int | None, total: int | None) -> bool:
    """Whether this is None or a list of counts: of this length, and adding up to this total."""
    if value is None:
        return True
    if type(value) is not list or length not in (None, len(value)):
        return False
    counts = [item for item in value if item is not None]
    if not all(_count(item) for item in counts):
        return False
    return total is None or (len(counts) == len(value) and sum(counts) == total)
