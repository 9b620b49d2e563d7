"""The order in which the targets of a tier are asked."""

from collections import Counter
from decimal import Decimal
from types import SimpleNamespace

import pytest

from gateway_project.work.routing.signals import Signals
from gateway_project.work.routing.strategies import Strategy, Weighted, order_targets, signal_key

pytestmark = pytest.mark.embedded


def target(number, model="fast"):
    return SimpleNamespace(provider=SimpleNamespace(id=number), model=model)


ONE, TWO, THREE = target(1), target(2), target(3)
SEEDS = [number.to_bytes(8, "big") for number in range(4000)]


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def signals(clock):
    return Signals(clock)


def ordered(strategy, *targets, signals=None, seed=b"seed", costs=None, weights=None):
    weighted = [Weighted(one, (weights or {}).get(one.provider.id, 1)) for one in targets]
    costs = costs or {}
    return order_targets(
        strategy, weighted, seed, signals or Signals(), cost=lambda one: costs.get(one.provider.id), is_streamed=True
    )


def firsts(strategy, *targets, **options):
    """How often each provider is asked first."""
    return Counter(ordered(strategy, *targets, seed=seed, **options)[0].provider.id for seed in SEEDS)


def measure(signals, one, seconds, times=1):
    for _ in range(times):
        sending = signals.begin(signal_key(one, is_streamed=True))
        sending.started = signals.clock() - seconds
        sending.note_first_token()
        sending.end()


@pytest.mark.parametrize("strategy", [Strategy.WEIGHTED, Strategy.STICKY])
class TestByWeight:
    def test_requests_are_spread_by_weight(self, strategy):
        shares = firsts(strategy, ONE, TWO, weights={1: 3, 2: 1})
        assert 0.72 < shares[1] / len(SEEDS) < 0.78

    def test_the_same_seed_gives_the_same_order_whatever_the_order_of_the_targets(self, strategy):
        assert ordered(strategy, ONE, TWO, THREE) == ordered(strategy, THREE, ONE, TWO)

    def test_without_a_target_only_its_own_requests_move(self, strategy):
        for seed in SEEDS[:200]:
            before = ordered(strategy, ONE, TWO, THREE, seed=seed)
            assert ordered(strategy, ONE, THREE, seed=seed) == [one for one in before if one is not TWO]

    def test_two_models_of_one_provider_are_two_targets(self, strategy):
        slow = target(1, "slow")
        models = Counter(ordered(strategy, ONE, slow, seed=seed)[0].model for seed in SEEDS)
        assert 0.45 < models["slow"] / len(SEEDS) < 0.55

    def test_weight_zero_serves_only_if_no_other_does(self, strategy):
        assert firsts(strategy, ONE, TWO, weights={2: 0}) == {1: len(SEEDS)}
        assert ordered(strategy, TWO, weights={2: 0}) == [TWO]


class TestCheapest:
    def test_the_least_cost_is_first(self):
        costs = {1: Decimal("0.2"), 2: Decimal("0.1"), 3: Decimal("0.3")}
        assert ordered(Strategy.CHEAPEST, ONE, TWO, THREE, costs=costs) == [TWO, ONE, THREE]

    def test_no_cost_is_the_least_and_an_unknown_one_comes_last(self):
        assert ordered(Strategy.CHEAPEST, ONE, TWO, THREE, costs={2: Decimal(1), 3: Decimal(0)}) == [THREE, TWO, ONE]

    def test_equal_costs_share_the_requests(self):
        shares = firsts(Strategy.CHEAPEST, ONE, TWO, costs={1: Decimal(1), 2: Decimal(1)})
        assert 0.45 < shares[1] / len(SEEDS) < 0.55


class TestLeastBusy:
    def test_the_fewest_requests_in_flight_come_first(self, signals):
        sending = signals.begin((1, "fast", True))
        assert ordered(Strategy.LEAST_BUSY, ONE, TWO, signals=signals) == [TWO, ONE]
        sending.end()
        signals.begin((2, "fast", False))
        assert ordered(Strategy.LEAST_BUSY, ONE, TWO, signals=signals) == [ONE, TWO]

    def test_the_weight_says_how_many_a_target_takes(self, signals):
        for number in (1, 1, 2):
            signals.begin((number, "fast", True))
        assert ordered(Strategy.LEAST_BUSY, ONE, TWO, signals=signals, weights={1: 3}) == [ONE, TWO]


class TestFastest:
    def test_the_least_time_to_the_first_token_is_first(self, signals):
        for one, seconds in ((ONE, 2.0), (TWO, 0.5), (THREE, 1.0)):
            measure(signals, one, seconds)
        assert ordered(Strategy.FASTEST, ONE, TWO, THREE, signals=signals) == [TWO, THREE, ONE]

    def test_those_that_are_about_as_fast_share_the_requests(self, signals):
        measure(signals, ONE, 0.50)
        measure(signals, TWO, 0.55)
        shares = firsts(Strategy.FASTEST, ONE, TWO, signals=signals)
        assert 0.45 < shares[1] / len(SEEDS) < 0.55

    def test_one_that_was_never_measured_is_tried(self, signals):
        measure(signals, ONE, 0.5)
        assert firsts(Strategy.FASTEST, ONE, TWO, signals=signals)[2] > 1000

    def test_failures_cost_time(self, signals):
        measure(signals, ONE, 0.5, times=5)
        measure(signals, TWO, 0.7, times=5)
        for _ in range(5):
            signals.begin((1, "fast", True)).note_failure()
        assert ordered(Strategy.FASTEST, ONE, TWO, signals=signals) == [TWO, ONE]

    def test_a_slow_one_is_measured_again_and_found_when_it_is_fast(self, signals, clock):
        measure(signals, ONE, 0.5)
        measure(signals, TWO, 3.0, times=100)
        counts = Counter()
        for number in range(1200):  # a minute
            clock.now += 0.05
            first = ordered(Strategy.FASTEST, ONE, TWO, signals=signals, seed=SEEDS[number])[0]
            counts[first.provider.id] += 1
            measure(signals, first, {1: 0.5, 2: 0.1 if number > 600 else 3.0}[first.provider.id])
            if number == 600:
                assert 4 <= counts[2] <= 8, "once in five seconds"
        assert counts[2] > 100

    def test_few_requests_are_not_all_used_to_measure(self, signals, clock):
        measure(signals, ONE, 0.5)
        measure(signals, TWO, 3.0)
        counts = Counter()
        for number in range(200):  # one in ten seconds
            clock.now += 10
            first = ordered(Strategy.FASTEST, ONE, TWO, signals=signals, seed=SEEDS[number])[0]
            counts[first.provider.id] += 1
            measure(signals, first, {1: 0.5, 2: 3.0}[first.provider.id])
        assert counts[2] <= 10
