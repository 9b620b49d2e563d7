"""How long is too long, on a machine that has other things to do as well."""

import os
import time
from collections.abc import Iterable
from functools import cache

import pytest

EXACT = "TEST_EXACT_BOUNDS"  # set by --promises
ADDITIONS, USUAL_SECONDS = 200_000, 0.012  # of processor time, on the machines that the bounds were chosen on
TAKES = 5


def patience(seconds: float) -> float:
    """An upper bound for what takes so long on an idle machine: generous, the more so the slower and busier this is."""
    return seconds * slowness() * max(3.0, 2.0 * os.getloadavg()[0] / (os.cpu_count() or 1))


@cache
def slowness() -> float:
    """How many times as long this machine computes as usual; at least 1. Virtual machines can be ten times slower."""
    return max(1.0, *(_addition_seconds() / USUAL_SECONDS for _ in range(TAKES)))


def _addition_seconds() -> float:
    begun, total = time.process_time(), 0
    for number in range(ADDITIONS):
        total += number
    return time.process_time() - begun


def lengthen_timeouts(items: Iterable[pytest.Item]) -> None:
    """Give tests more time on a slow machine: their time-outs end what hangs, and promise nothing."""
    if slowness() == 1:
        return
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = marker.args[0] if marker else float(item.config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(seconds * slowness()), append=False)


def bound(seconds: float) -> float:
    """An upper bound that a promise names: it holds as it stands in a run that writes figures (`make faults`).

    In `make test` it gets `patience`: there the processors are busy with other tests.
    """
    return seconds if EXACT in os.environ else patience(seconds)


def in_one_minute(seconds: float) -> None:
    """Return when the calendar minute has so many seconds left, or more where this machine is slow.

    Not more where it is busy: most tests would wait for the next minute, and few need so long.
    """
    rest = 60 - time.time() % 60
    if rest < min(seconds * slowness(), 45):
        time.sleep(rest + 0.1)
