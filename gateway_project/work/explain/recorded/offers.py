"""The providers of a request that has ended, as its log entry has them."""

from collections.abc import Iterator
from typing import NamedTuple

from gateway_project.work.snapshot.records import Caller
from providers.catalogue import Target
from providers.models import Provider
from telemetry.attempts import LoggedAttempt
from telemetry.models import Candidate, LogEntry

# Outcomes in the log: those that no rule judged, and those that a rule judged and did not allow.
NOT_JUDGED = (Candidate.NOT_WANTED,)
UNKNOWN_ID = 0  # of a provider that was renamed or deleted since


class RecordedProvider(NamedTuple):
    """A provider by the name that it had."""

    id: int
    name: str
    models: tuple[str, ...] = ()
    format: object = None


class RecordedCandidate(NamedTuple):
    """A provider that was considered, with the outcome; the model is '' if the log does not name it."""

    target: Target[RecordedProvider]
    outcome: str
    detail: str


def caller_of(entry: LogEntry) -> Caller:
    """The user as they were, as far as the entry knows them."""
    return Caller(entry.user_id or 0, entry.username, True, frozenset(), tuple(entry.group_ids))


def attempts_of(entry: LogEntry) -> list[LoggedAttempt]:
    """The sendings of the request to providers, in order."""
    return [LoggedAttempt(*values) for values in entry.provider_calls or []]


def candidates_of(entry: LogEntry) -> list[RecordedCandidate]:
    """The providers that were considered, in the order of the log."""
    ids = _ids(entry)
    models = {attempt.provider_name: attempt.model for attempt in attempts_of(entry)}
    if entry.provider_name and entry.served_model:
        models[entry.provider_name] = entry.served_model
    own_name = "" if entry.alias else judged_name(entry)
    return [
        RecordedCandidate(
            Target(RecordedProvider(ids.get(name, UNKNOWN_ID), name), models.get(name, own_name)), outcome, detail
        )
        for name, outcome, detail in entry.candidates or []
    ]


def judged_name(entry: LogEntry) -> str:
    """The name that the rules judged: that of an alias as it was asked for, else the model without its provider."""
    name: str = entry.model if entry.alias else entry.served_model or entry.model
    prefixes = [f"{provider}/" for provider, _, _ in entry.candidates or []]
    if entry.alias or entry.served_model:
        return name
    return next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)


def judged_offers(entry: LogEntry) -> tuple[Target[RecordedProvider], ...]:
    """The targets that the rules judged; of an alias those that they allow by themselves."""
    exclusions = (*NOT_JUDGED, Candidate.NOT_ALLOWED) if entry.alias else NOT_JUDGED
    return tuple(one.target for one in candidates_of(entry) if one.outcome not in exclusions)


def _ids(entry: LogEntry) -> dict[str, int]:
    """Ids by name: as the entry has them, else of who has the name now."""
    names = {name for name, _, _ in entry.candidates or []}
    ids = dict(Provider.objects.filter(name__in=names).values_list("name", "pk"))
    return ids | dict(_recorded_ids(entry))


def _recorded_ids(entry: LogEntry) -> Iterator[tuple[str, int]]:
    for attempt in attempts_of(entry):
        yield attempt.provider_name, attempt.provider_id
    if entry.provider_id is not None:
        yield entry.provider_name, entry.provider_id
