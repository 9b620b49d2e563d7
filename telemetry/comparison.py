"""How long the stages of a log entry took, compared with those of similar requests."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from math import ceil
from typing import Any, NamedTuple

from gateway_project.api.names import camel
from gateway_project.json_types import JsonObject
from telemetry.attempts import LoggedAttempt
from telemetry.models import LogEntry
from telemetry.paging import QueryTimeout, statement_timeout
from telemetry.querysets import EntryQuerySet

MAX_SAMPLE = 1000
SAMPLE_HOURS = 24
COMPARISON_MS = 2_000
KIND = ("entry_type", "entry_source", "provider_id", "model", "served_model", "stream", "outcome")

Stage = tuple[str, str]  # "" or "attempt", and the name
Row = tuple[list[Any], list[Any] | None]


class Baseline(NamedTuple):
    """What a stage usually takes, in milliseconds."""

    p50: float
    p95: float


class Comparison(NamedTuple):
    """What the stages of the newest similar requests took, and how many those are."""

    requests: int
    stages: dict[Stage, Baseline]


NOTHING = Comparison(0, {})


def compare_entry(entry: LogEntry, entries: EntryQuerySet | None = None) -> Comparison | None:
    """The comparison with the requests of the day before, of all or of these entries; None if that took too long."""
    if entry.provider_id is None:
        return NOTHING
    try:
        with statement_timeout(COMPARISON_MS):
            rows = _sample(entry, LogEntry.objects.all() if entries is None else entries)
    except QueryTimeout:
        return None
    lengths: dict[Stage, list[float]] = defaultdict(list)
    for row in rows:
        for stage, length in _lengths(row):
            lengths[stage].append(length)
    return Comparison(len(rows), {stage: _baseline(values) for stage, values in lengths.items()})


def describe_comparison(entry: LogEntry, entries: EntryQuerySet) -> JsonObject:
    """An entry's stages and the steps of its attempts, compared with similar ones of these entries, as data."""
    comparison = compare_entry(entry, entries)
    baselines = {} if comparison is None else comparison.stages
    calls = [LoggedAttempt(*call).stages for call in entry.provider_calls or ()]
    sums = [(None, _sums("", entry.stages)), *((number, _sums("attempt", one)) for number, one in enumerate(calls, 1))]
    return {
        "kind": {camel(name): getattr(entry, name) for name in KIND},
        "entries": None if comparison is None else comparison.requests,
        "stages": [
            _stage(number, stage, length, baselines.get(stage)) for number, stages in sums for stage, length in stages
        ],
    }


def _stage(attempt: int | None, stage: Stage, length: float, baseline: Baseline | None) -> JsonObject:
    p50, p95 = baseline or (None, None)
    return {"stage": stage[1], "attempt": attempt, "milliseconds": round(length, 3), "p50": p50, "p95": p95}


def _sample(entry: LogEntry, entries: EntryQuerySet) -> list[Row]:
    """The newest ones of the same kind: model, provider, stream or not, stored answer or not, and outcome."""
    similar = entries.filter(**{name: getattr(entry, name) for name in KIND}).exclude(pk=entry.pk)
    day = similar.between(entry.timestamp - timedelta(hours=SAMPLE_HOURS), entry.timestamp).newest_first()
    return list(day.values_list("stages", "provider_calls")[:MAX_SAMPLE])


def _lengths(row: Row) -> Iterator[tuple[Stage, float]]:
    """How long the request was in each stage, all visits together, and each attempt in each step."""
    stages, calls = row
    yield from _sums("", stages)
    for call in calls or ():
        yield from _sums("attempt", LoggedAttempt(*call).stages)


def _sums(part: str, stages: Iterable[tuple[str, float, float]]) -> Iterator[tuple[Stage, float]]:
    sums: dict[str, float] = defaultdict(float)
    for name, _, length in stages:
        sums[name] += length
    yield from (((part, name), length) for name, length in sums.items())


def _baseline(lengths: list[float]) -> Baseline:
    lengths.sort()
    return Baseline(*(lengths[ceil(len(lengths) * share) - 1] for share in (0.5, 0.95)))
