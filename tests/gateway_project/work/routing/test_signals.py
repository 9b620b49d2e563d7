"""Measurements of targets, in one process and over several."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway_project.work.routing.averages import HALF_LIFE_SECONDS, Average
from gateway_project.work.routing.signals import STALE_SECONDS, Signals, View

pytestmark = pytest.mark.embedded

KEY = (1, "fast", True)


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock(1000.0)


@pytest.fixture
def signals(clock):
    return Signals(clock)


def measure(signals, clock, seconds, key=KEY):
    sending = signals.begin(key)
    clock.now += seconds
    sending.note_first_token()
    sending.end()


def share(*processes):
    """Every process gets what the others export, as JSON."""
    exports = [json.loads(json.dumps(one.export())) for one in processes]
    for place, one in enumerate(processes):
        one.merge((str(other), export) for other, export in enumerate(exports) if other != place)


class TestAverages:
    def test_what_is_old_weighs_less(self):
        average = Average().with_measurement(1.0, 0.0).with_measurement(4.0, HALF_LIFE_SECONDS)
        assert average.mean == pytest.approx((0.5 * 1 + 4) / 1.5)

    def test_a_thousand_measurements_weigh_no_more_than_forty(self):
        average = Average()
        for _ in range(1000):
            average = average.with_measurement(1.0, 0.0)
        assert average.weight == pytest.approx(40)
        assert average.mean == pytest.approx(1.0)

    def test_the_last_one_is_not_forgotten(self):
        average = Average().with_measurement(3.0, 0.0).aged_to(100_000.0)
        assert average.mean == pytest.approx(3.0)
        assert average.with_measurement(1.0, 100_000.0).mean == pytest.approx(1.0, abs=0.01)

    def test_without_measurements_there_is_no_average(self):
        assert Average().mean is None


class TestOneProcess:
    def test_a_target_that_nobody_asked_is_unknown(self, signals):
        assert signals.view(KEY) == View()
        assert signals.in_flight(1, "fast") == 0

    def test_the_time_to_the_first_token_and_what_is_in_flight(self, signals, clock):
        sending = signals.begin(KEY)
        assert signals.in_flight(1, "fast") == 1
        clock.now += 2
        sending.note_first_token()
        clock.now += 5
        sending.note_first_token()
        sending.end()
        sending.end()
        assert signals.view(KEY).first_token_seconds == pytest.approx(2)
        assert signals.in_flight(1, "fast") == 0

    def test_streams_and_whole_answers_are_measured_apart_and_counted_together(self, signals, clock):
        measure(signals, clock, 1)
        signals.begin((1, "fast", False))
        signals.begin(KEY)
        assert signals.view((1, "fast", False)).first_token_seconds is None
        assert signals.in_flight(1, "fast") == 2

    def test_one_that_keeps_its_clients_waiting_is_slow_before_it_answers(self, signals, clock):
        measure(signals, clock, 1)
        for _ in range(10):
            signals.begin(KEY)
        clock.now += 30
        signals.export()
        assert signals.view(KEY).first_token_seconds > 25

    def test_how_often_it_fails(self, signals, clock):
        measure(signals, clock, 0)
        signals.begin(KEY).note_failure()
        assert signals.view(KEY).failure_rate == pytest.approx(0.5)

    def test_slow_is_what_takes_longer_than_95_of_100(self, signals, clock):
        for seconds in range(1, 20):
            measure(signals, clock, seconds)
        assert signals.slow_after(KEY) is None, "too few"
        for _ in range(81):
            measure(signals, clock, 0.5)
        assert signals.slow_after(KEY) == pytest.approx(15)

    def test_threads_lose_nothing_that_is_in_flight(self):
        signals = Signals()

        def ask(number):
            sending = signals.begin(KEY)
            sending.note_first_token()
            if number % 4:
                sending.end()

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(4000)))
        assert signals.in_flight(1, "fast") == 1000


class TestSeveralProcesses:
    def test_all_agree_once_they_have_shared(self, clock):
        processes = [Signals(clock) for _ in range(3)]
        for number, process in enumerate(processes):
            for _ in range(5):
                measure(process, clock, 1 + number)
            process.begin(KEY)
        share(*processes)
        views = [process.view(KEY) for process in processes]
        assert [view.in_flight for view in views] == [3, 3, 3]
        assert max(view.first_token_seconds for view in views) == pytest.approx(
            min(view.first_token_seconds for view in views)
        )

    def test_clocks_of_machines_may_differ(self, clock):
        here, there_clock = Signals(clock), Clock(5.0)
        there = Signals(there_clock)
        measure(there, there_clock, 2)
        there_clock.now += 3
        share(here, there)
        view = here.view(KEY)
        assert view.first_token_seconds == pytest.approx(2)
        assert clock.now - view.measured_at == pytest.approx(3)

    def test_a_process_that_has_ended_is_forgotten(self, clock):
        here, there = Signals(clock), Signals(clock)
        there.begin(KEY)
        share(here, there)
        assert here.in_flight(1, "fast") == 1
        clock.now += STALE_SECONDS
        here.merge([])
        assert here.in_flight(1, "fast") == 0
