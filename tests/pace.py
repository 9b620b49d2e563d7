"""How long is too long, on a machine that has other things to do as well."""

import os


def patience(seconds: float) -> float:
    """An upper bound for what takes so long on an idle machine: generous, the more so the busier this one is."""
    return seconds * max(3.0, 2.0 * os.getloadavg()[0] / (os.cpu_count() or 1))
