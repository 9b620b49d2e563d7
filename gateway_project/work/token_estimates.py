"""Estimated numbers of tokens, for requests whose provider has not reported any (yet).

The weights reproduce the counts of the vocabulary o200k_base (tiktoken 0.14) within a fifth for prose and code in the
languages of tests/gateway_project/work/token_samples.json.
"""

import re
from collections.abc import Iterable
from math import ceil

from providers.formats import WorkRequest

# The fields with the text of a request; all others are parameters.
TEXT_FIELDS = ("messages", "prompt", "input", "system", "instructions", "tools", "functions", "texts", "contents")
FILE = re.compile(r"data:[^,\s]{0,200};base64,")
SAMPLE_CHARACTERS = 2048  # of longer texts an evenly spread part is looked at
PART_CHARACTERS = 256  # of each part
MAX_CHARACTERS_A_TOKEN = 8  # so that a long word of any script is not estimated as a single token
# How many tokens a match takes, and how many a character of these scripts.
WORDS = (
    (re.compile(r"[A-Za-z]{1,14}"), 0.95),
    (re.compile(r"[A-Za-z]{8,14}"), 0.11),
    (re.compile(r"[!-/:-@\[-`{-~]{1,6}"), 1.2),
    (re.compile(r"[0-9]{1,3}"), 0.97),
    (re.compile(r"\n"), 0.1),
)
OTHER_WORDS = ((re.compile("[\u0370-\u052f]{1,16}"), 1.58),)  # Greek and Cyrillic
SCRIPTS = (
    (re.compile("[\u4e00-\u9fff\u3400-\u4dbf]+"), 0.74),  # Han
    (re.compile("[\u3040-\u30ff\uff66-\uff9f]+"), 0.7),  # Kana
    (re.compile("[\u3000-\u303f\uff00-\uff65]+"), 0.8),  # punctuation of East Asia
    (re.compile("[\uac00-\ud7af]+"), 0.65),  # Hangul
    (re.compile("[\u00c0-\u024f]+"), 0.54),  # letters with accents
    (re.compile("[\u0530-\u2fff\ua000-\uabff\U00010000-\U0010ffff]+"), 0.38),
)


def input_tokens(work: WorkRequest) -> int:
    """The estimated input tokens of a request: of its texts only, not of images."""
    texts: list[str] = []
    total = sum(_collect_texts(work.body[name], texts) for name in TEXT_FIELDS if name in work.body)
    return total + tokens_in(texts)


def tokens_in(texts: Iterable[str]) -> int:
    """The estimated number of tokens of these texts together."""
    texts = list(texts)
    characters = sum(map(len, texts))
    if characters <= SAMPLE_CHARACTERS:
        return ceil(sum(map(_weigh_text, texts)))
    share = SAMPLE_CHARACTERS / characters
    return ceil(sum(_weigh_part(text, max(int(len(text) * share), PART_CHARACTERS)) for text in texts))


def _weigh_part(text: str, size: int) -> float:
    """The weight of a text, from parts of this size altogether that are spread over it."""
    if len(text) <= size:
        return _weigh_text(text)
    step = len(text) * PART_CHARACTERS // size
    parts = [text[start : start + PART_CHARACTERS] for start in range(0, len(text), step)]
    sample = " ".join(parts)
    return _weigh_text(sample) * len(text) / len(sample)


def _weigh_text(text: str) -> float:
    weight = _weigh_words(text, WORDS)
    if not text.isascii():
        weight += _weigh_words(text, OTHER_WORDS)
        weight += sum(len("".join(pattern.findall(text))) * tokens for pattern, tokens in SCRIPTS)
    return max(weight, len(text) / MAX_CHARACTERS_A_TOKEN)


def _weigh_words(text: str, weights: Iterable[tuple[re.Pattern[str], float]]) -> float:
    return sum(len(pattern.findall(text)) * tokens for pattern, tokens in weights)


def _collect_texts(value: object, texts: list[str]) -> int:
    """Add all texts in a JSON value, without files in base64; returns the tokens that came as numbers."""
    tokens, waiting = 0, [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            if not FILE.match(current):
                texts.append(current)
        elif isinstance(current, dict):
            waiting += [inner for name, inner in current.items() if name not in ("data", "file_data")]
        elif isinstance(current, list):
            waiting += current
        elif type(current) is int:
            tokens += 1
    return tokens
