"""The result of the cache lookup of a request that has ended."""

from gateway_project.json_types import JsonObject
from gateway_project.work.cache.verdict import BYPASS, HIT, MISS, OFF
from gateway_project.work.explain.recorded.limits import decision_of
from telemetry.models import CacheEntry, CacheStatus, LogEntry

VERDICTS = {CacheStatus.HIT: HIT, CacheStatus.MISS: MISS, CacheStatus.BYPASS: BYPASS}


def cache_row(entry: LogEntry) -> JsonObject:
    """The verdict with the key, who shared the answer, and how old it was."""
    decision, verdict = decision_of(entry), verdict_of(entry)
    return {
        "verdict": verdict,
        "key": entry.cache_hash or None,
        "scope": None if decision is None else decision.scope,
        "ageSeconds": _age_seconds(entry) if verdict == HIT else None,
    }


def verdict_of(entry: LogEntry) -> str:
    """What the cache said; of an entry that does not have it, what its status says."""
    decision = decision_of(entry)
    return VERDICTS.get(CacheStatus(entry.cache_status), OFF) if decision is None else decision.cache


def _age_seconds(entry: LogEntry) -> int | None:
    """The age of the answer that was served; None if another one has taken its place since, or it was deleted."""
    entries = CacheEntry.objects.filter(request_hash=entry.cache_hash, created_at__lte=entry.timestamp)
    at = entries.values_list("created_at", flat=True).first()
    return None if at is None else int((entry.timestamp - at).total_seconds())
