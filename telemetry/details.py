"""The context of a log entry's page in the console. All of it is hostile text: the template escapes it."""

import json
from collections.abc import Iterator
from typing import Any

from django.urls import reverse

from gateway_project.console.money import exactly
from gateway_project.json_types import JsonObject
from telemetry.models import Candidate, EntryType, LogEntry

LONG_FIELDS = ("payload", "stages", "candidates")  # not loaded by lists of entries
LABEL_VARIANTS = {
    Candidate.ANSWERED: "success", Candidate.STORED: "success", Candidate.FAILED: "danger",
    Candidate.INTERRUPTED: "warning", Candidate.RESTING: "warning", Candidate.FULL: "warning",
}  # fmt: skip
# Facts that link to an admin page: its url name, and the field with the id.
FACT_PAGES = {
    "User": ("accounts_user", "user_id"),
    "Key": ("keys_apikey", "key_id"),
    "Rule": ("rules_rule", "rule_id"),
    "Provider": ("providers_provider", "provider_id"),
}


def details(entry: LogEntry) -> JsonObject:
    """The template context of an entry's page."""
    related = LogEntry.objects.filter(correlation_id=entry.correlation_id).exclude(pk=entry.pk)
    request, response = _bodies(entry.payload)
    return {
        "facts": list(_facts(entry)),
        "request_title": "Request" if entry.entry_type == EntryType.WORK_REQUEST else "Details",
        "request_text": request,
        "response_text": response,
        "stages": list(_bars(entry)),
        "candidates": list(_candidates(entry)),
        "related": related.newest_first().defer(*LONG_FIELDS)[:20] if entry.correlation_id else [],
    }


def _facts(entry: LogEntry) -> Iterator[tuple[str, Any, str]]:
    """(name, value, link) of each known fact of the entry; the link is '' if there is none."""
    usage = "" if entry.input_tokens is None else f"{all_input(entry):,} in, {entry.output_tokens or 0:,} out"
    facts = {
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
        "Cached tokens": entry.cache_read_tokens,
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
    return ((name, value, _page(entry, name)) for name, value in facts.items() if value not in ("", None))


def _page(entry: LogEntry, fact: str) -> str:
    table, column = FACT_PAGES.get(fact, ("", ""))
    number = getattr(entry, column) if column else None
    return reverse(f"admin:{table}_change", args=[number]) if number else ""


def _bodies(payload: str) -> tuple[str, str]:
    """Request and response, or the whole payload and '', each as formatted text."""
    try:
        document = json.loads(payload)
    except ValueError:
        return payload, ""
    if not isinstance(document, dict):
        return payload, ""
    if "request" in document or "response" in document:
        return _pretty(document.get("request")), _pretty(document.get("response"))
    return _pretty(document), ""


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _bars(entry: LogEntry) -> Iterator[JsonObject]:
    """The stages as bars: start and length of each in percent of the whole request."""
    whole = max([entry.duration_ms or 0, *(begin + length for _, begin, length in entry.stages)], default=0) or 1
    for name, begin, length in entry.stages:
        start = min(100 * begin / whole, 99.5)
        yield {"name": name, "left": start, "width": max(min(100 * length / whole, 100 - start), 0.5), "ms": length}


def _candidates(entry: LogEntry) -> Iterator[dict[str, str]]:
    """The providers that were considered, with the outcome of each as a label."""
    labels = dict(Candidate.choices)
    for name, result, detail in entry.candidates or []:
        yield {
            "name": name,
            "kind": LABEL_VARIANTS.get(result, ""),
            "label": labels.get(result, result),
            "detail": detail,
        }


def all_input(row: LogEntry) -> int:
    """All input tokens, cached ones included."""
    return (row.input_tokens or 0) + (row.cache_read_tokens or 0) + (row.cache_write_tokens or 0)
