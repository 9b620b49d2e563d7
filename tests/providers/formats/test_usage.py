"""Usage that providers report in odd ways: nothing is counted twice, and what is no count is not taken for none."""

from decimal import Decimal

import pytest

from providers.formats.anthropic import reply as anthropic
from providers.formats.bedrock import reply as bedrock
from providers.formats.gemini import reply as gemini
from providers.formats.ollama import reply as ollama
from providers.formats.openai import reply as openai
from providers.formats.passthrough.reply import familiar_usage
from providers.formats.usage import MOST_TOKENS, Usage, money, read_count

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
    assert read_count(value) is None
    assert [read_count(0), read_count(MOST_TOKENS - 1)] == [0, MOST_TOKENS - 1]


def test_money_is_what_it_was_written_as():
    assert money(123456.1) == Decimal("123456.1")


def test_of_anthropic_what_the_totals_leave_out_counts_too():
    """As the documentation of compaction has it: 180,000 tokens were read to write the summary."""
    usage = {
        "input_tokens": 23_000,
        "cache_read_input_tokens": None,
        "output_tokens": 1_000,
        "iterations": [
            {"type": "compaction", "input_tokens": 180_000, "cache_read_input_tokens": 7, "output_tokens": 3_500},
            {"type": "message", "input_tokens": 23_000, "cache_read_input_tokens": 0, "output_tokens": 1_000},
            {"type": "advisor_message", "input_tokens": 800, "output_tokens": 1_600},
        ],
    }
    counted = Usage(203_800, 7, None, 6_100)
    assert anthropic.usage_of(usage) == counted
    assert familiar_usage({"usage": usage}) == counted


def test_what_is_kept_for_an_hour_is_told_apart():
    written = {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 48}
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 148, "cache_creation": written, "output_tokens": 4}
    counted = Usage(3, None, 148, 4, cache_write_hour=48)
    assert anthropic.usage_of(usage) == familiar_usage({"usage": usage}) == counted
    summary = {"type": "compaction", "cache_creation_input_tokens": 2, "cache_creation": written}
    both = Usage(3, None, 150, 4, cache_write_hour=96)
    assert anthropic.usage_of(usage | {"iterations": [summary]}) == both
    assert anthropic.usage_of(usage | {"cache_creation": "48"}) == Usage(3, None, 148, 4)
    details = [{"inputTokens": 48, "ttl": "1h"}, {"inputTokens": 100, "ttl": "5m"}, {"ttl": "1h"}, None]
    converse = {"inputTokens": 3, "cacheWriteInputTokens": 148, "outputTokens": 4, "cacheDetails": details}
    assert bedrock.usage_of(converse) == counted


@pytest.mark.parametrize("iterations", [None, 5, "x", [None, 5, {}], [{"type": "compaction", "input_tokens": "9"}], {}])
def test_iterations_of_another_form_change_nothing(iterations):
    usage = {"input_tokens": 3, "output_tokens": 4, "iterations": iterations}
    assert anthropic.usage_of(usage) == Usage(3, output=4)


def test_thoughts_that_only_the_total_contains_are_output():
    """Google's endpoint for clients of OpenAI reports them nowhere else, xAI beside the output."""
    google = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 103}
    assert openai.usage_of(google) == Usage(9, output=94)
    details = {"completion_tokens_details": {"reasoning_tokens": 233}}
    xai = {"prompt_tokens": 37, "completion_tokens": 530, "total_tokens": 800} | details
    assert openai.usage_of(xai) == Usage(37, output=763, reasoning=233)


@pytest.mark.parametrize("total", [None, 0, 12, 13, -5, "99", 2**63, True])
def test_a_total_that_says_nothing_new_changes_nothing(total):
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": total}
    assert openai.usage_of(usage) == Usage(9, output=4)
