"""Times as the journal has them."""

from collections.abc import Iterable
from functools import lru_cache
from time import gmtime, strftime

from telemetry.attempts import Timing


def timestamp(seconds: float) -> str:
    """A time as text that both databases read, in UTC.

    Without a fraction that is zero, as Django writes it: SQLite compares times as texts.
    """
    whole_seconds, microseconds = divmod(int(seconds * 1_000_000), 1_000_000)
    return f"{_format_second(whole_seconds)}.{microseconds:06d}" if microseconds else _format_second(whole_seconds)


def milliseconds(seconds: float) -> float:
    """A length of time in milliseconds, down to whole microseconds; round() takes five times as long."""
    return seconds // 1e-6 / 1e3


def as_timings(steps: Iterable[tuple[str, float, float]], zero: float) -> list[Timing]:
    """Each step's name, begin since zero, and length, of its name, begin and end in seconds."""
    # As milliseconds() has them, without two function calls for each.
    return [(name, (begin - zero) // 1e-6 / 1e3, (end - begin) // 1e-6 / 1e3) for name, begin, end in steps]


@lru_cache(maxsize=64)
def _format_second(seconds: int) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", gmtime(seconds))
