"""The state of the limits when a request came, from its log entry."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from accounts.models import Group
from gateway_project.json_types import JsonObject
from gateway_project.work.explain.limits import row_of
from gateway_project.work.limits import active_uses
from gateway_project.work.limits.book import KIND_BY_MEASURE, WINDOWS
from gateway_project.work.limits.checks import USE, LimitCheck, Reading
from gateway_project.work.limits.kinds import CREDENTIAL, PROVIDER, LimitDescription, Subject
from providers.models import Provider, ProviderCredential
from telemetry.journal.decisions import LoggedDecision, LoggedLimit
from telemetry.models import LogEntry


class RecordedLimit(NamedTuple):
    """A limit without the request, and when its window ends."""

    reading: Reading
    ends: int


def decision_of(entry: LogEntry) -> LoggedDecision | None:
    """The recorded state of cache, estimate and limits; None if it was not recorded."""
    return None if entry.decision is None else LoggedDecision(*entry.decision)


def recorded_limits(entry: LogEntry, *, with_all: bool, groups: Collection[int] | None = None) -> list[RecordedLimit]:
    """The limits that were asked, in their order; `with_all`: those of credentials, too.

    `groups`: only those of these groups, for a viewer who administers them and did not make the request.
    """
    decision = decision_of(entry)
    logged = [LoggedLimit(*values) for values in (decision.limits or () if decision is not None else ())]
    subjects = {one.name: _subject(one.name) for one in logged}
    names = _names(entry, set(subjects.values()))
    return [
        RecordedLimit(_read_limit(one, subjects[one.name], names), one.ends)
        for one in logged
        if with_all or _is_shown(subjects[one.name], groups)
    ]


def limit_rows(limits: list[RecordedLimit]) -> list[JsonObject]:
    """The limits as data."""
    return [row_of(reading, ends - 1) for reading, ends in limits]


def _is_shown(subject: Subject, groups: Collection[int] | None) -> bool:
    if groups is None:
        return subject.kind != CREDENTIAL
    return subject.kind == "group" and subject.id in groups


def _subject(name: str) -> Subject:
    """Whose limit it is, by the name of its check."""
    if name == active_uses.NAME:
        return Subject("licence", 0)
    _, kind, number, _ = name.split(":")
    return Subject(kind, int(number))


def _read_limit(limit: LoggedLimit, subject: Subject, names: Mapping[Subject, str]) -> Reading:
    name, amount, usage, reserved, remaining, _ = limit
    if name == active_uses.NAME:
        check = LimitCheck(name, amount, kind=USE)
    else:
        measure, _, _, window = name.split(":")
        description = LimitDescription(subject, names.get(subject) or str(subject.id), measure, window)
        check = LimitCheck(name, amount, WINDOWS[window], KIND_BY_MEASURE[measure], limit=description)
    return Reading(check, usage, reserved, remaining, 0)


def _names(entry: LogEntry, subjects: set[Subject]) -> dict[Subject, str]:
    """What they were called, as far as the entry knows; groups and providers as they are called now."""
    names = {Subject(kind, entry.user_id or 0): entry.username for kind in ("user", "login")}
    names[Subject("key", entry.key_id or 0)] = entry.key_name
    groups = Group.objects.filter(pk__in=_ids("group", subjects)).values_list("pk", "name")
    names |= {Subject("group", number): name for number, name in groups}
    providers = Provider.objects.filter(pk__in=_ids(PROVIDER, subjects)).values_list("pk", "name")
    names |= {Subject(PROVIDER, number): name for number, name in providers}
    credentials = ProviderCredential.objects.filter(pk__in=_ids(CREDENTIAL, subjects))
    rows = credentials.values_list("pk", "provider__name")
    return names | {Subject(CREDENTIAL, number): f"of {name}" for number, name in rows}


def _ids(kind: str, subjects: set[Subject]) -> list[int]:
    return [subject.id for subject in subjects if subject.kind == kind]
