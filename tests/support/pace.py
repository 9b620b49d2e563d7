"""How long is too long, on a machine that has other things to do as well."""

import os
import time

EXACT = "TEST_EXACT_BOUNDS"  # set by --promises


def patience(seconds: float) -> float:
    """An upper bound for what takes so long on an idle machine: generous, the more so the busier this one is."""
    return seconds * max(3.0, 2.0 * os.getloadavg()[0] / (os.cpu_count() or 1))


def bound(seconds: float) -> float:
    """An upper bound that a promise names: it holds as it stands in a run that writes figures (`make faults`).

    In `make test` it gets `patience`: there the processors are busy with other tests.
    """
    return seconds if EXACT in os.environ else patience(seconds)


def in_one_minute(seconds: float) -> None:
    """Return when the calendar minute has so many seconds left, or more where this machine is busy."""
    rest = 60 - time.time() % 60
    if rest < min(patience(seconds) / 3, 45):
        time.sleep(rest + 0.1)
