"""Ids of tool calls as each provider accepts them."""

import re
from functools import lru_cache
from hashlib import blake2b

# Of a hash as letters and digits; 9 of them are 46 bits, enough for the calls of one conversation.
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


LONGEST_REMEMBERED = 256  # letters; clients choose how long an id is


def fitting_id(call_id: str, accepted: re.Pattern[str], length: int) -> str:
    """The id itself where the provider accepts it, else one of so many letters and digits.

    It is derived from the id alone: a call and its result get the same one, and so does the next request with the same
    history, which keeps the provider's prompt cache. What the model is answered with never comes back to the client,
    so that no way back is needed: the ids of new calls are the provider's own.
    """
    fit = _remembered if len(call_id) <= LONGEST_REMEMBERED else _fit
    return fit(call_id, accepted, length)


def _fit(call_id: str, accepted: re.Pattern[str], length: int) -> str:
    if accepted.fullmatch(call_id):
        return call_id
    number = int.from_bytes(blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=32).digest())
    letters = []
    for _ in range(length):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return "".join(letters)


# A call stands in every request of its conversation from then on, and so does its result.
_remembered = lru_cache(maxsize=4096)(_fit)
