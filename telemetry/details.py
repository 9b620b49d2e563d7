"""What the page of a log entry in the console shows. All of it is hostile text: the template escapes it."""

import json
from collections.abc import Iterator
from typing import Any

from django.urls import reverse

from gateway_project.console.money import exactly
from telemetry.models import Candidate, EntryType, LogEntry

LONG = ("payload", "stages", "candidates")  # what no list of entries shows
KINDS = {
    Candidate.ANSWERED: "success", Candidate.STORED: "success", Candidate.FAILED: "danger",
    Candidate.INTERRUPTED: "warning", Candidate.RESTING: "warning", Candidate.FULL: "warning",
}  # fmt: skip
# Facts that lead to a page: the table, and where its id stands.
PAGES = {
    "User": ("accounts_user", "user_id"),
    "Key": ("keys_apikey", "key_id"),
    "Rule": ("rules_rule", "rule_id"),
    "Provider": ("providers_provider", "provider_id"),
}


def details(entry: LogEntry) -> dict[str, Any]:
    """What the page of an entry shows beside its fields."""
    related = LogEntry.objects.filter(correlation_id=entry.correlation_id).exclude(pk=entry.pk)
    request, response = _bodies(entry.payload)
    return {
        "facts": list(_facts(entry)),
        "request_title": "Request" if entry.entry_type == EntryType.WORK_REQUEST else "Details",
        "request_text": request,
        "response_text": response,
        "stages": list(_bars(entry)),
        "candidates": list(_candidates(entry)),
        "related": related.newest_first().defer(*LONG)[:20] if entry.correlation_id else [],
    }


def _facts(entry: LogEntry) -> Iterator[tuple[str, Any, str]]:
    """What is known of the entry, by the names that people use, and the pages that tell more; '' for none."""
    usage = "" if entry.input_tokens is None else f"{all_input(entry):,} in, {entry.output_tokens or 0:,} out"
    known = {
        "Time (UTC)": f"{entry.timestamp:%Y-%m-%d %H:%M:%S.%f}",
        "Message": entry.message,
        "Outcome": entry.outcome,
        "Status": entry.status,
        "Error": entry.exception,
        "User": entry.username,
        "Key": entry.key_name,
        "Rule": entry.rule_name,
        "Model": entry.model,
        "Provider": entry.provider_name,
        "Attempts": entry.attempts or "",
        "Cache": entry.cache_status,
        "Tokens": usage + (" (estimated)" if usage and entry.usage_estimated else ""),
        "Of them cached": entry.cache_read_tokens,
        "Reasoning": entry.reasoning_tokens,
        "Cost": exactly(entry.cost, entry.currency),
        "Saved": exactly(entry.saved_cost, entry.currency),
        "Finish reason": " / ".join(filter(None, (entry.finish_reason, entry.provider_finish_reason))),
        "Took": "" if entry.duration_ms is None else f"{entry.duration_ms:,.1f} ms",
        "First byte after": "" if entry.first_byte_ms is None else f"{entry.first_byte_ms:,.1f} ms",
        "Tags": ", ".join(f"{name}={value}" for name, value in entry.tags.items()),
        "Address": entry.address,
        "Request id": entry.correlation_id,
    }
    return ((name, value, _page(entry, name)) for name, value in known.items() if value not in ("", None))


def _page(entry: LogEntry, fact: str) -> str:
    table, column = PAGES.get(fact, ("", ""))
    number = getattr(entry, column) if column else None
    return reverse(f"admin:{table}_change", args=[number]) if number else ""


def _bodies(payload: str) -> tuple[str, str]:
    """Request and response, or before and after, each as text to read."""
    try:
        found = json.loads(payload)
    except ValueError:
        return payload, ""
    if not isinstance(found, dict):
        return payload, ""
    if "request" in found or "response" in found:
        return _pretty(found.get("request")), _pretty(found.get("response"))
    return _pretty(found), ""


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _bars(entry: LogEntry) -> Iterator[dict[str, Any]]:
    """The stages as bars: where each begins and how long it is, in percent of the whole."""
    whole = max([entry.duration_ms or 0, *(begin + length for _, begin, length in entry.stages)], default=0) or 1
    for name, begin, length in entry.stages:
        left = min(100 * begin / whole, 99.5)
        yield {"name": name, "left": left, "width": max(min(100 * length / whole, 100 - left), 0.5), "ms": length}


def _candidates(entry: LogEntry) -> Iterator[dict[str, str]]:
    """The providers that were considered, and what became of each, in words."""
    words = dict(Candidate.choices)
    for name, result, detail in entry.candidates or []:
        yield {"name": name, "kind": KINDS.get(result, ""), "told": words.get(result, result), "detail": detail}


def all_input(row: LogEntry) -> int:
    """The tokens that went in, whatever the provider did with them."""
    return (row.input_tokens or 0) + (row.cache_read_tokens or 0) + (row.cache_write_tokens or 0)
