"""Usage that providers report in odd ways: nothing is counted twice, and what is no count is not taken for none."""

from decimal import Decimal

import pytest

from providers.formats.bedrock import reply as bedrock
from providers.formats.gemini import reply as gemini
from providers.formats.ollama import reply as ollama
from providers.formats.usage import MOST_TOKENS, Usage, count, money

pytestmark = pytest.mark.embedded


def test_parts_that_exceed_the_whole_are_not_believed():
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    assert bedrock.usage_of(usage | {"cacheReadInputTokens": 4}) == Usage(6, 4, None, 5)
    assert bedrock.usage_of(usage | {"cacheReadInputTokens": 50}) == Usage(10, None, None, 5)


@pytest.mark.parametrize("odd", [-1, 1.5, "12", 2**63])
def test_what_is_no_count_is_not_taken_for_a_zero_that_was_left_out(odd):
    told = {"promptTokenCount": 10}
    assert gemini.usage_of(told).output == 0
    assert gemini.usage_of(told | {"thoughtsTokenCount": 3}).output == 3
    assert gemini.usage_of(told | {"candidatesTokenCount": odd}) == Usage(10)
    assert ollama.usage_of({"eval_count": 5}) == Usage(0, output=5)
    assert ollama.usage_of({"prompt_eval_count": odd, "eval_count": 5}) == Usage(output=5)


@pytest.mark.parametrize(
    ("usage", "tokens"), [(Usage(), 0), (Usage(1, 2, 4, 8, 16), 7), (Usage(cache_write=4), 4), (Usage(output=8), 0)]
)
def test_all_input_is_what_was_read_anew_and_what_a_cache_had_a_part_in(usage, tokens):
    assert usage.all_input == tokens


@pytest.mark.parametrize("value", [-1, MOST_TOKENS, True, 1.0, "1", None])
def test_a_count_is_a_number_that_a_counter_can_have(value):
    assert count(value) is None
    assert [count(0), count(MOST_TOKENS - 1)] == [0, MOST_TOKENS - 1]


def test_money_is_what_it_was_written_as():
    assert money(123456.1) == Decimal("123456.1")
