"""Times as the journal has them."""

import time
from functools import lru_cache


def timestamp(seconds: float) -> str:
    """A time as text that both databases read, in UTC.

    Without a fraction that is zero, as Django writes it: SQLite compares times as texts.
    """
    micros = int(seconds * 1_000_000)
    whole, micro = micros // 1_000_000, micros % 1_000_000
    return f"{_second(whole)}.{micro:06d}" if micro else _second(whole)


@lru_cache(maxsize=64)
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(whole))
