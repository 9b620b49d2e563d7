"""Ids of rows, as addresses and forms have them."""

MAX_ID = 2**63 - 1  # the greatest that the databases have; no row is found by a greater one
MAX_DIGITS = 18  # of an id in an address


def id_in(text: str) -> int:
    """The id that a text is; 0, which no row has, if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0
