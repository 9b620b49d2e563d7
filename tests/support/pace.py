"""How long is too long, on a machine that has other things to do as well."""

import os
import time


def patience(seconds: float) -> float:
    """An upper bound for what takes so long on an idle machine: generous, the more so the busier this one is."""
    return seconds * max(3.0, 2.0 * os.getloadavg()[0] / (os.cpu_count() or 1))


def bound(seconds: float) -> float:
    """An upper bound that a promise names: it holds as it stands where tests run one at a time (`make faults`).

    Tests that run beside others (xdist) get `patience`: there the processors are busy with something else.
    """
    return patience(seconds) if "PYTEST_XDIST_WORKER" in os.environ else seconds


def in_one_minute(seconds: float) -> None:
    """Return when the calendar minute has so many seconds left, or more where this machine is busy."""
    rest = 60 - time.time() % 60
    if rest < min(patience(seconds) / 3, 45):
        time.sleep(rest + 0.1)
