"""The context of a log entry's page in the console. All of it is hostile text: the template escapes it."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.db.models import Q
from django.urls import reverse

from gateway_project.console.display.money import Figure, money, short
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from telemetry.attempts import ANSWERED, INTERRUPTED, REJECTED, LoggedAttempt
from telemetry.log_page.conversation import conversation
from telemetry.models import Candidate, EntryType, LogEntry, Operation
from telemetry.waterfall import waterfall

LONG_FIELDS = ("payload", "stages", "candidates", "provider_calls", "guardrails")  # not loaded by lists of entries
LABEL_VARIANTS = {
    Candidate.ANSWERED: "success", Candidate.STORED: "success", Candidate.FAILED: "danger",
    Candidate.INTERRUPTED: "warning", Candidate.RESTING: "warning", Candidate.FULL: "warning",
}  # fmt: skip
CAUSE_VARIANTS = {ANSWERED: "success", INTERRUPTED: "warning", REJECTED: "warning"}
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
    bodies = bodies_of(entry.payload)
    request, response = map(_pretty, bodies)
    is_request = entry.entry_type in (EntryType.WORK_REQUEST, EntryType.MIRROR)
    return {
        "turns": conversation(*bodies) if is_request else [],
        **(_neighbours(entry) if is_request else {}),
        "facts": list(_facts(entry)),
        "request_title": "Request" if entry.entry_type == EntryType.WORK_REQUEST else "Details",
        "request_text": request,
        "response_text": response,
        "waterfall": waterfall(entry),
        "candidates": list(_candidates(entry)),
        "calls": list(_calls(entry)),
        "entry_links": list(_links(entry)),
        "related": related.newest_first().defer(*LONG_FIELDS)[:20] if entry.correlation_id else [],
    }


def _facts(entry: LogEntry) -> Iterator[tuple[str, Any, str]]:
    """(name, value, link) of each known fact of the entry; the link is '' if there is none."""
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
        "Alias": entry.alias,
        "Served by model": entry.served_model if entry.served_model != entry.model else "",
        "Provider": entry.provider_name,
        "Attempts": entry.attempts or "",
        "Cache": entry.cache_status,
        "Tokens": tokens(entry),
        "Cached tokens": entry.cache_read_tokens,
        "Reasoning": entry.reasoning_tokens,
        "Cost": _cost(entry.cost, entry.currency),
        "Saved": _cost(entry.saved_cost, entry.currency),
        "Finish reason": " / ".join(filter(None, (entry.finish_reason, entry.provider_finish_reason))),
        "Took": "" if entry.duration_ms is None else f"{entry.duration_ms:,.1f} ms",
        "First byte after": "" if entry.first_byte_ms is None else f"{entry.first_byte_ms:,.1f} ms",
        "Guardrails": _guardrails(entry),
        "Tags": ", ".join(f"{name}={value}" for name, value in entry.tags.items()),
        "Address": entry.address,
        "Request id": entry.correlation_id,
    }
    return ((name, value, _page(entry, name)) for name, value in facts.items() if value not in ("", None))


def _guardrails(entry: LogEntry) -> str:
    """Each guardrail that ran, with its result and how often it found what."""
    return "; ".join(
        f"{one['name']} ({one['direction']}): {one['result']}"
        + "".join(f", {count} × {category}" for category, count in one["counts"].items())
        for one in entry.guardrails or ()
    )


def _page(entry: LogEntry, fact: str) -> str:
    table, column = FACT_PAGES.get(fact, ("", ""))
    number = getattr(entry, column) if column else None
    return reverse(f"admin:{table}_change", args=[number]) if number else ""


def _neighbours(entry: LogEntry) -> JsonObject:
    """The ids of the requests before and after it, None at the ends."""
    requests = LogEntry.objects.filter(entry_type=EntryType.WORK_REQUEST).only("pk")
    earlier = Q(timestamp__lt=entry.timestamp) | Q(timestamp=entry.timestamp, pk__lt=entry.pk)
    later = Q(timestamp__gt=entry.timestamp) | Q(timestamp=entry.timestamp, pk__gt=entry.pk)
    before = requests.filter(earlier, timestamp__lte=entry.timestamp).newest_first()
    after = requests.filter(later, timestamp__gte=entry.timestamp).order_by("timestamp", "id")
    return {
        "previous_entry": before.values_list("pk", flat=True).first(),
        "next_entry": after.values_list("pk", flat=True).first(),
    }


def _links(entry: LogEntry) -> Iterator[tuple[str, str]]:
    """What can be done about the request: where it, and another like it, is explained, tried and stopped."""
    if entry.entry_type in (EntryType.WORK_REQUEST, EntryType.MIRROR):
        yield "Explain what happened", reverse("admin:explain-entry", args=[entry.pk])
    if entry.entry_type == EntryType.WORK_REQUEST and entry.user_id:
        yield "Explain such a request now", f"{reverse('admin:explain')}?entry={entry.pk}"
    if entry.entry_type == EntryType.WORK_REQUEST and entry.operation in ("", Operation.CHAT):
        yield "Open in playground", f"{reverse('admin:playground')}?entry={entry.pk}"
    if entry.entry_type == EntryType.WORK_REQUEST and _may_lock(entry.key_id):
        yield "Block this key", reverse("admin:keys_apikey_lock", args=[entry.key_id])


def _may_lock(key_id: int | None) -> bool:
    return key_id is not None and ApiKey.objects.live().filter(pk=key_id, locked_time=None).exists()


def bodies_of(payload: str) -> tuple[Any, Any]:
    """Request and response, or the whole payload and ''."""
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        return payload, ""
    if not isinstance(document, dict):
        return payload, ""
    if "request" in document or "response" in document:
        return document.get("request"), document.get("response")
    return document, ""


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


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


def _calls(entry: LogEntry) -> Iterator[dict[str, str]]:
    """Each attempt at a provider, with its cause as a label."""
    for attempt in (LoggedAttempt(*values) for values in entry.provider_calls or []):
        yield {
            "provider": attempt.provider_name,
            "model": attempt.model,
            "kind": CAUSE_VARIANTS.get(attempt.cause, "danger"),
            "label": attempt.cause or "answered",
            "detail": ", ".join(filter(None, _attempt_parts(attempt))),
        }


def _attempt_parts(attempt: LoggedAttempt) -> tuple[str, ...]:
    cost = money(Decimal(attempt.cost), attempt.currency) if attempt.cost else ""
    unknown = f"cost {attempt.cost_status}" if attempt.cost_status else ""
    return (
        attempt.exception,
        f"status {attempt.status}",
        f"after {attempt.begin_ms:,.1f} ms, for {attempt.duration_ms:,.1f} ms",
        cost or unknown,
    )


def _cost(amount: Decimal | None, currency: str) -> str:
    return "" if amount is None else money(amount, currency)


def tokens(row: LogEntry) -> str:
    """Input and output, short, with the exact numbers on hover; '' for an entry without."""
    if row.input_tokens is None and row.output_tokens is None:
        return ""
    mark = " (estimated)" if row.usage_estimated else ""
    read, written = short(all_input(row)), short(row.output_tokens or 0)
    return Figure(f"{read} in, {written} out{mark}", f"{read.exact} in, {written.exact} out{mark}")


def all_input(row: LogEntry) -> int:
    """All input tokens, cached ones included."""
    return (row.input_tokens or 0) + (row.cache_read_tokens or 0) + (row.cache_write_tokens or 0)
