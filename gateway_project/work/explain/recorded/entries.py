"""The explanation of a request that has ended, from its log entry: in the form of one that is not sent."""

from collections.abc import Collection, Iterable

from accounts.models import Group
from gateway_project.errors import NotFound
from gateway_project.json_types import JsonObject
from gateway_project.work.explain.recorded.cache import cache_row
from gateway_project.work.explain.recorded.limits import limit_rows, recorded_limits
from gateway_project.work.explain.recorded.offers import RecordedCandidate, attempts_of, candidates_of
from gateway_project.work.explain.recorded.rules import consider_entry
from gateway_project.work.explain.recorded.sentences import Facts, sentences_of
from gateway_project.work.explain.rules import rows_of
from gateway_project.work.snapshot.records import Snapshot
from telemetry.details import all_input
from telemetry.models import Candidate, EntryType, LogEntry

REQUESTS = (EntryType.WORK_REQUEST, EntryType.MIRROR)
# Errors from which it is not known whether the caller had the permission to send work.
BEFORE_PERMISSION = ("AuthenticationFailed", "PermissionDenied")
REASONS_TO_ASK = {
    Candidate.ANSWERED: "It answered.",
    Candidate.STORED: "Its stored answer was served.",
    Candidate.FAILED: "It failed.",
    Candidate.INTERRUPTED: "Its answer was interrupted.",
}
LEFT_OUT = {
    Candidate.RESTING: "It was resting.",
    Candidate.FULL: "One of its limits was used up.",
    Candidate.UNFIT: "It could not take the request.",
    Candidate.NOT_WANTED: "The request named another provider.",
    Candidate.NOT_ALLOWED: "The rules, or the key's list of models, did not allow it.",
    Candidate.NOT_TRIED: "It was not needed.",
}


def describe_entry(
    entry: LogEntry, snapshot: Snapshot, *, with_all: bool, groups: Collection[int] | None = None
) -> JsonObject:
    """The decision as it was recorded; `with_all`: with rules for others. Raises NotFound for an entry of no request.

    `groups`: only limits of these groups. The snapshot says what users and providers are called now.
    """
    if entry.entry_type not in REQUESTS:
        raise NotFound(f"The log entry with id {entry.pk} does not belong to a request.")
    consideration = consider_entry(entry, with_all=with_all)
    candidates, limits, cache = (
        candidates_of(entry),
        recorded_limits(entry, with_all=with_all, groups=groups),
        cache_row(entry),
    )
    return {
        "allowed": not entry.exception,
        "sentences": sentences_of(Facts(entry, consideration, limits, cache)),
        "error": _error(entry),
        "caller": _caller(entry),
        "rules": rows_of(consideration, snapshot),
        "otherRules": consideration.hidden,
        "candidates": _attempt_rows(entry, candidates),
        "leftOut": [_omitted_row(one) for one in candidates if one.outcome not in REASONS_TO_ASK],
        "limits": limit_rows(limits),
        "cache": cache,
        "guardrails": [_guardrail(one) for one in entry.guardrails or ()],
        "outgoing": None,
        "estimate": {
            "inputTokens": all_input(entry),
            "outputTokens": entry.output_tokens or 0,
            "cost": None if entry.cost is None else f"{entry.cost.normalize():f}",
            "currency": entry.currency,
        },
    }


def _error(entry: LogEntry) -> JsonObject | None:
    if not entry.exception:
        return None
    return {"code": entry.status, "exception": entry.exception, "message": entry.message}


def _caller(entry: LogEntry) -> JsonObject:
    names = dict(Group.objects.filter(pk__in=entry.group_ids).values_list("pk", "name"))
    groups = [{"id": group_id, "name": names.get(group_id, f"group {group_id}")} for group_id in entry.group_ids]
    return {
        "userId": entry.user_id,
        "userName": entry.username,
        "keyId": entry.key_id,
        "keyName": entry.key_name or None,
        "groups": groups,
        "mayWork": None if entry.user_id is None or entry.exception in BEFORE_PERMISSION else True,
    }


def _guardrail(run: JsonObject) -> JsonObject:
    """A guardrail that has searched the request or the answer; entries of before an update have no action."""
    return {
        "id": run["id"],
        "name": run["name"],
        "action": run.get("action"),
        "directions": [run["direction"]],
        "repairs": run.get("repairs", False) if "action" in run else None,
        "result": run["result"],
        "counts": run["counts"],
    }


def _attempt_rows(entry: LogEntry, candidates: Iterable[RecordedCandidate]) -> list[JsonObject]:
    """Each sending to a provider; where the log has none of them, the providers that were asked."""
    rows = [
        {
            "provider": attempt.provider_name,
            "model": attempt.model,
            "reason": "It answered." if not attempt.cause else f"It failed: {attempt.cause}, {attempt.exception}.",
        }
        for attempt in attempts_of(entry)
    ]
    rows = rows or [
        _row(one, REASONS_TO_ASK[Candidate(one.outcome)]) for one in candidates if one.outcome in REASONS_TO_ASK
    ]
    return [row | {"position": number} for number, row in enumerate(rows, 1)]


def _omitted_row(candidate: RecordedCandidate) -> JsonObject:
    outcome = candidate.outcome
    return _row(candidate, LEFT_OUT.get(Candidate(outcome), outcome) if outcome in Candidate.values else outcome)


def _row(candidate: RecordedCandidate, reason: str) -> JsonObject:
    text = f"{reason} {candidate.detail}" if candidate.detail else reason
    return {"provider": candidate.target.provider.name, "model": candidate.target.model or None, "reason": text}
