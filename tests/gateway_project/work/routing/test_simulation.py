"""What each strategy makes of an hour of requests; docs/routing.md shows the same figures."""

from functools import cache

import pytest

from tests.support.routing_simulation import HEAD, ROUND_ROBIN, STRATEGIES, result_of, row, rows_of_page

pytestmark = [pytest.mark.embedded, pytest.mark.long]

result = cache(result_of)


def test_the_page_has_a_row_for_each_strategy():
    rows = list(rows_of_page())
    assert "".join(rows[:2]) == HEAD
    assert [row.split("|")[1].strip() for row in rows[2:]] == list(STRATEGIES)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_page_shows_what_the_simulation_gives(strategy):
    shown = next(line for line in rows_of_page() if line.startswith(f"| {strategy} |"))
    assert row(strategy, result(strategy), result(ROUND_ROBIN)) == shown, "`make routing-table TABLE=--update`"


@pytest.mark.slow
def test_no_request_stays_without_an_answer_while_a_provider_works():
    assert {name: result(name).failures for name in STRATEGIES} == dict.fromkeys(STRATEGIES, 0)
    assert min(result(name).requests for name in STRATEGIES) > 200_000


@pytest.mark.slow
def test_the_fastest_target_saves_time():
    assert result("fastest").mean_seconds < 0.8 * result(ROUND_ROBIN).mean_seconds
    assert result("fastest").slow_seconds < 0.6 * result(ROUND_ROBIN).slow_seconds
    assert result("fastest").shares["cheap"] < 0.02, "it is measured now and then, and is the slowest"


@pytest.mark.slow
def test_the_cheapest_target_saves_money_up_to_its_rate_limit():
    assert result("cheapest").cost < 0.5 * result(ROUND_ROBIN).cost
    assert 0.35 < result("cheapest").shares["cheap"] < 25 / 60
    assert result("cheapest").calls < 1.1 * result("cheapest").requests, "a target at its limit is left alone"


@pytest.mark.slow
def test_a_session_that_stays_reads_its_prompt_from_the_cache():
    assert result("sticky").cached_share > 1.5 * result(ROUND_ROBIN).cached_share
    assert result("sticky").cost < 0.75 * result(ROUND_ROBIN).cost


@pytest.mark.slow
def test_the_least_busy_target_avoids_those_that_are_slow():
    assert result("least-busy").mean_seconds < 0.95 * result(ROUND_ROBIN).mean_seconds
