"""The attempts at each provider and model: their numbers, the latest results and the last error.

Requests queue events (counters.py), and a background thread counts them here. The counts of all processes are added.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway_project.json_types import JsonObject
from telemetry.metrics.sums import OTHER

# The latest results that are kept of a provider's model, in each process.
LATEST = 10
MINUTE_SECONDS = 60
# The minutes whose results are counted: ten, and the one that was running when these began.
MINUTES = 11
# Pairs of provider and model that are told apart; further models of a provider count as `other`.
MAX_PAIRS = 1000

Pair = tuple[int, str]  # the provider's id, and our name of the model
Result = tuple[float, bool]  # seconds since 1970, and whether the attempt succeeded
Minute = tuple[int, int, int]  # minutes since 1970, and the results and failures in it


class Subject(NamedTuple):
    """Whom an attempt asks: names as labels have them."""

    provider_id: int
    provider: str
    model: str


class AttemptStart(NamedTuple):
    """A request was sent."""

    subject: Subject
    is_check: bool = False


class AttemptSuccess(NamedTuple):
    """The provider has begun to answer, or refused the request for what it asks."""

    subject: Subject
    at: float  # seconds since 1970
    is_check: bool = False


class AttemptFailure(NamedTuple):
    """The provider did not answer; `is_broken` is False if that says nothing about its health, as a pause does."""

    subject: Subject
    at: float
    exception: str
    message: str
    is_broken: bool = True
    is_check: bool = False


@dataclass(slots=True)
class Record:
    """The results of the attempts at one model of one provider."""

    attempts: int = 0
    failures: int = 0
    checks: int = 0
    failed_checks: int = 0
    failed_at: float = 0.0  # of the last failure, as exception and message; 0 if there was none
    exception: str = ""
    message: str = ""
    latest: list[Result] = field(default_factory=list)  # the oldest first
    minutes: list[Minute] = field(default_factory=list)  # at most MINUTES, the oldest first

    def note_result(self, at: float, *, succeeded: bool) -> None:
        """Add one to the latest results, and to those of its minute."""
        self._count_minute(int(at // MINUTE_SECONDS), 1, int(not succeeded))
        self.latest.append((at, succeeded))
        if len(self.latest) > LATEST:
            del self.latest[0]

    def results_since(self, at: float) -> tuple[int, int]:
        """The results and the failures since the beginning of the minute of a moment, MINUTES ago at most."""
        begin = int(at // MINUTE_SECONDS)
        counts = [(results, failures) for minute, results, failures in self.minutes if minute >= begin]
        return sum(results for results, _ in counts), sum(failures for _, failures in counts)

    def _count_minute(self, minute: int, results: int, failures: int) -> None:
        if self.minutes and self.minutes[-1][0] == minute:
            _, before, failures_before = self.minutes[-1]
            self.minutes[-1] = (minute, before + results, failures_before + failures)
            return
        counts = {at: (number, failed) for at, number, failed in self.minutes}
        before, failures_before = counts.get(minute, (0, 0))
        counts[minute] = (before + results, failures_before + failures)
        self.minutes = [(at, *counts[at]) for at in sorted(counts)[-MINUTES:]]

    def note_failure(self, failed: AttemptFailure) -> None:
        """Count a failure and remember its error."""
        if failed.is_check:
            self.failed_checks += 1
        else:
            self.failures += 1
        if failed.at >= self.failed_at:
            self.failed_at, self.exception, self.message = failed.at, failed.exception, failed.message
        if failed.is_broken:
            self.note_result(failed.at, succeeded=False)

    def add(self, other: "Record") -> None:
        """Add the record of another process."""
        self.attempts += other.attempts
        self.failures += other.failures
        self.checks += other.checks
        self.failed_checks += other.failed_checks
        self.latest = sorted([*self.latest, *other.latest])[-LATEST:]
        for minute in other.minutes:
            self._count_minute(*minute)
        if other.failed_at > self.failed_at:
            self.failed_at, self.exception, self.message = other.failed_at, other.exception, other.message


class AttemptBook:
    """The records by provider and model. Not thread-safe."""

    def __init__(self) -> None:
        self.records: dict[Pair, Record] = {}

    def note(self, event: AttemptStart | AttemptSuccess | AttemptFailure) -> None:
        """Add one event."""
        record = self._record(event.subject.provider_id, event.subject.model)
        if isinstance(event, AttemptFailure):
            record.note_failure(event)
        elif isinstance(event, AttemptSuccess):
            record.note_result(event.at, succeeded=True)
        elif event.is_check:
            record.checks += 1
        else:
            record.attempts += 1

    def add(self, other: "AttemptBook") -> None:
        """Add all records of another process, also beyond MAX_PAIRS: which fit would depend on the order."""
        for pair, record in other.records.items():
            self.records.setdefault(pair, Record()).add(record)

    def by_provider(self) -> dict[int, dict[str, Record]]:
        """The records by the provider's id, and then by model."""
        records: dict[int, dict[str, Record]] = defaultdict(dict)
        for (provider_id, model), record in self.records.items():
            records[provider_id][model] = record
        return records

    def to_json(self) -> list[tuple[Pair, Record]]:
        """The records as orjson writes them: it knows dataclasses."""
        return list(self.records.items())

    @classmethod
    def from_json(cls, rows: Iterable[tuple[Pair, JsonObject]]) -> "AttemptBook":
        """The inverse of to_json()."""
        book = cls()
        for (provider_id, model), values in rows:
            values["latest"] = [(at, succeeded) for at, succeeded in values["latest"]]
            values["minutes"] = [(at, results, failures) for at, results, failures in values["minutes"]]
            book.records[provider_id, model] = Record(**values)
        return book

    def _record(self, provider_id: int, model: str) -> Record:
        record = self.records.get((provider_id, model))
        if record is None:
            pair = (provider_id, model if len(self.records) < MAX_PAIRS else OTHER)
            record = self.records.setdefault(pair, Record())
        return record
