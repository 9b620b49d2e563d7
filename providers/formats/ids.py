"""Ids of tool calls as each provider accepts them."""

import re
from functools import lru_cache
from hashlib import blake2b

# Characters of a shortened hash: 9 letters and digits have 46 bits, enough for the calls of one conversation.
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


LONGEST_REMEMBERED = 256  # characters; clients choose how long an id is


def fitting_id(call_id: str, accepted: re.Pattern[str], length: int) -> str:
    """The id itself if the provider accepts it, else a new one of so many letters and digits.

    The new id depends only on the old one. So a call and its result have the same id, and the next request with the
    same history too, which keeps the provider's prompt cache valid. It never has to be translated back: the client gets
    only ids of new calls, which are the provider's own.
    """
    fit = _remembered if len(call_id) <= LONGEST_REMEMBERED else _compute_id
    return fit(call_id, accepted, length)


def _compute_id(call_id: str, accepted: re.Pattern[str], length: int) -> str:
    if accepted.fullmatch(call_id):
        return call_id
    number = int.from_bytes(blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=32).digest())
    letters = []
    for _ in range(length):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return "".join(letters)


# Every later request of a conversation repeats its calls and results.
_remembered = lru_cache(maxsize=4096)(_compute_id)
