"""The estimate of tokens, beside the counts of a real vocabulary (tiktoken's o200k_base)."""

import json
import time
from pathlib import Path

import pytest

from gateway_project.work.token_estimates import SAMPLE_CHARACTERS, input_tokens, tokens_in
from providers.formats import WorkRequest
from tests.support.pace import slowness
from tests.support.promises import promise

SAMPLES = json.loads(Path(__file__).with_name("token_samples.json").read_text())


@promise(
    "Estimated tokens are right in English, code, Chinese, Japanese, Cyrillic", target="within 20 %", suite="attack"
)
@pytest.mark.parametrize("sample", SAMPLES, ids=[sample["name"] for sample in SAMPLES])
@pytest.mark.parametrize("times", [1, 40])
def test_it_is_right_within_a_fifth(sample, times):
    assert tokens_in([sample["text"] * times]) == pytest.approx(sample["tokens"] * times, rel=0.2)


def test_a_conversation_is_the_sum_of_its_texts():
    texts = [sample["text"] for sample in SAMPLES]
    assert tokens_in(texts) == pytest.approx(sum(sample["tokens"] for sample in SAMPLES), rel=0.1)


def test_four_hundred_chinese_characters_are_not_a_hundred_tokens():
    text = next(sample["text"] for sample in SAMPLES if sample["name"].startswith("Chinese"))
    assert tokens_in([(text * 4)[:400]]) > 250


@pytest.mark.parametrize("text", ["a" * 8000, "!" * 8000, " " * 8000, "1" * 8000, "\U0001f600" * 8000])
def test_no_text_is_nearly_free(text):
    assert tokens_in([text]) >= 1000


def test_tokens_that_came_as_numbers_count_as_they_are():
    assert input_tokens(WorkRequest("embedding", "m", {"input": [[1, 2, 3], [4]]}, b"")) == 4


def test_a_long_prompt_takes_no_longer_than_its_sample():
    begun = time.perf_counter()
    tokens_in([sample["text"] * 2000 for sample in SAMPLES])
    assert time.perf_counter() - begun < 0.25 * slowness()
    assert SAMPLE_CHARACTERS < 10_000
