"""Estimated numbers of tokens, for requests whose provider has not reported any (yet)."""

import re

from providers.formats import WorkRequest

# The fields with the text of a request; all others are parameters.
TEXT_FIELDS = ("messages", "prompt", "input", "system", "instructions", "tools", "functions", "texts", "contents")
CHARACTERS_A_TOKEN = 4
FILE = re.compile(r"data:[^,\s]{0,200};base64,")


def input_tokens(work: WorkRequest) -> int:
    """The estimated input tokens of a request: of its texts only, not of images."""
    return tokens_of(sum(_characters(work.body[name]) for name in TEXT_FIELDS if name in work.body))


def tokens_of(characters: int) -> int:
    """The estimated number of tokens: four characters each, which is common for many languages and tokenisers."""
    return -(-characters // CHARACTERS_A_TOKEN)


def _characters(value: object) -> int:
    """The characters of all texts in a JSON value, without files in base64."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            total += 0 if FILE.match(one) else len(one)
        elif isinstance(one, dict):
            waiting += [inner for name, inner in one.items() if name not in ("data", "file_data")]
        elif isinstance(one, list):
            waiting += one
        elif type(one) is int:  # a text that came as tokens
            total += CHARACTERS_A_TOKEN
    return total
