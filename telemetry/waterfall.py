"""The stages of a log entry, and the steps of its attempts, as bars on one time axis."""

from collections.abc import Iterator
from itertools import starmap
from operator import itemgetter
from typing import NamedTuple

from gateway_project.json_types import JsonObject
from gateway_project.wording import plural
from telemetry.attempts import LoggedAttempt, Timing
from telemetry.comparison import Comparison, compare_entry
from telemetry.models import LogEntry

MIN_PERCENT = 0.5
TICKS = 4


class Part(NamedTuple):
    """Some rows of the waterfall: the stages of the request, or the steps of one attempt."""

    kind: str  # "" or "attempt", as in a comparison
    title: str
    timings: list[Timing]


def waterfall(entry: LogEntry) -> JsonObject:
    """The template context: parts with bars, the ticks of the axis, and a sentence about the comparison."""
    parts = list(_parts(entry))
    timings = [timing for part in parts for timing in part.timings]
    if not timings:
        return {"parts": []}
    comparison = compare_entry(entry)
    begin = min(0.0, *(begin for _, begin, _ in timings))
    end = max(entry.duration_ms or 0.0, *(begin + length for _, begin, length in timings))
    length_ms = (end - begin) or 1.0
    return {
        "parts": [
            {"title": part.title, "bars": list(_bars(part, begin, length_ms, comparison))}
            for part in parts
            if part.timings
        ],
        "ticks": _axis_marks(length_ms),
        "sample": _sample_text(comparison),
        "is_compared": bool(comparison and comparison.requests),
    }


def _axis_marks(length_ms: float) -> list[str]:
    """The marks of the axis, which begins when the request did; with as many decimals as tell them apart."""
    step = length_ms / TICKS
    decimals = 0 if step >= 10 else 1 if step >= 1 else 2
    return [f"{step * number:,.{decimals}f}" for number in range(TICKS + 1)]


def _parts(entry: LogEntry) -> Iterator[Part]:
    yield Part("", "Request", sorted(entry.stages, key=itemgetter(1)))
    for number, attempt in enumerate(starmap(LoggedAttempt, entry.provider_calls or ()), 1):
        title = f"Attempt {number}: {attempt.provider_name}"
        total = [("whole attempt", attempt.begin_ms, attempt.duration_ms)]
        yield Part("attempt", title, [*total, *attempt.stages])


def _bars(part: Part, begin: float, length_ms: float, comparison: Comparison | None) -> Iterator[JsonObject]:
    """Each stage with its place on the axis in percent, and how long it takes in similar requests."""
    for name, start, length in part.timings:
        place = min(100 * (start - begin) / length_ms, 100 - MIN_PERCENT)
        usual = comparison.stages.get((part.kind, name)) if comparison else None
        yield {
            "name": name.replace("_", " "),
            "left": place,
            "width": max(min(100 * length / length_ms, 100 - place), MIN_PERCENT),
            "begin": start,
            "ms": length,
            "usual": usual,
            "is_slow": usual is not None and length > usual.p95,
        }


def _sample_text(comparison: Comparison | None) -> str:
    if comparison is None:
        return "The comparison took too long and was stopped."
    if not comparison.requests:
        return "There are no similar requests in the 24 hours before."
    requests = plural(comparison.requests, "similar request")
    return f"p50 and p95 of {requests} in the 24 hours before."
