"""What is known of another machine's clock is never more than its replies say."""

import pytest

from gateway_project.work.state.clock import Clock


def heard(*replies):
    """A clock of which these replies told: when it was asked, what it showed, when that came."""
    clock = Clock()
    for request, result, received in replies:
        clock.observe(result, request_time=request, reply_time=received)
    return clock


def test_a_clock_that_agrees_is_this_process_own():
    assert heard((100.0, 100.0005, 100.001), (200.0, 200.0, 203.0), (300.0, 302.9, 303.0)).offset == 0


@pytest.mark.parametrize("ahead", [-7200, -0.25, 30])
def test_another_clock_is_known_as_well_as_the_quickest_reply_tells(ahead):
    clock = heard((100.0, 101.5 + ahead, 103.0), (200.0, 200.0005 + ahead, 200.001), (300.0, 309.0 + ahead, 310.0))
    assert clock.offset == pytest.approx(ahead, abs=0.002)
    assert clock.to_local(clock.from_local(1000.0)) == pytest.approx(1000.0)


def test_a_clock_that_is_set_anew_is_followed():
    assert heard((100.0, 130.0, 100.0), (200.0, 200.0, 200.0)).offset == pytest.approx(0, abs=0.002)
