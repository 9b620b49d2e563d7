"""The context of a log entry's page in the console. All of it is hostile text: the template escapes it."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

from django.urls import reverse
from django.utils.html import format_html, format_html_join

from gateway_project.console.display.badges import Badge
from gateway_project.console.display.money import Figure, money, short_count
from gateway_project.console.display.names import link_names
from gateway_project.console.display.times import EXACT, utc_time
from gateway_project.console.links import link
from gateway_project.console.period import ANY_TIME, Period, row_page, with_query
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from providers.console.model_links import model_page, price_form
from telemetry.attempts import ANSWERED, INTERRUPTED, REJECTED, LoggedAttempt
from telemetry.journal.decisions import CACHE_OFF, LoggedDecision
from telemetry.log_page.conversation import conversation
from telemetry.log_page.links import names_of, pages_of, price_page, provider_pages, rule_form
from telemetry.log_page.mirrored import Side, mirrored_pair
from telemetry.log_page.neighbours import ids_of_neighbours
from telemetry.models import LONG_JSON, CacheStatus, Candidate, CostStatus, EntryType, LogEntry, Operation, Outcome
from telemetry.querysets import LogEntryQuerySet
from telemetry.waterfall import waterfall

LONG_FIELDS = ("payload", "stages", *LONG_JSON)  # not loaded by lists of entries
REQUESTS = (EntryType.WORK_REQUEST, EntryType.MIRROR)
NO_PRICE = "no price"  # of an answered request whose model has no price
LABEL_VARIANTS = {
    Candidate.ANSWERED: "success", Candidate.STORED: "success", Candidate.FAILED: "danger",
    Candidate.INTERRUPTED: "warning", Candidate.RESTING: "warning", Candidate.FULL: "warning",
}  # fmt: skip
OUTCOME_VARIANTS = {
    "completed": "success", "denied": "warning", "blocked": "warning", "revoked": "warning", "failed": "danger",
    "truncated": "danger", "client_closed": "info", "aborted": "danger",
}  # fmt: skip
CAUSE_VARIANTS = {ANSWERED: "success", INTERRUPTED: "warning", REJECTED: "warning"}


def content_context(entry: LogEntry, pages: Mapping[str, str]) -> JsonObject:
    """The part of the context that is for everyone who may read the entry; facts link to the pages with their names."""
    bodies = bodies_of(entry.payload)
    request, response = map(_format_json, bodies)
    facts = dict(_facts(entry))
    if entry.message:
        facts["Message"] = link_names(entry.message, names_of(entry, pages))
    return {
        "turns": conversation(*bodies) if entry.entry_type in REQUESTS else [],
        "facts": [(name, value, pages.get(name, "")) for name, value in facts.items()],
        "request_text": request,
        "response_text": response,
    }


def result_badge(entry: LogEntry) -> Badge:
    """The status of a request, and what is not usual: an error, an answer from the cache."""
    unusual = "cached" if entry.cache_status == CacheStatus.HIT else ""
    words = unusual if entry.outcome == Outcome.COMPLETED and entry.status else entry.exception or entry.outcome
    return Badge(f"{entry.status or ''} {words}".strip(), OUTCOME_VARIANTS.get(entry.outcome, ""))


def entry_context(entry: LogEntry, period: Period = ANY_TIME, listed: LogEntryQuerySet | None = None) -> JsonObject:
    """The template context of an entry's page; the pages that it links to get the period.

    The requests before and after it are those of a list, or of all.
    """
    related = LogEntry.objects.filter(correlation_id=entry.correlation_id).exclude(pk=entry.pk)
    return {
        **content_context(entry, pages_of(entry, period)),
        **(ids_of_neighbours(entry, listed) if entry.entry_type in REQUESTS else {}),
        "request_title": "Request" if entry.entry_type == EntryType.WORK_REQUEST else "Details",
        "waterfall": waterfall(entry),
        "candidates": list(_candidates(entry, period)),
        "calls": list(_calls(entry, period)),
        "sides": [_describe_side(one, period, is_this=one is entry) for one in mirrored_pair(entry)],
        "entry_links": list(_links(entry, period)),
        "related": related.newest_first().defer(*LONG_FIELDS)[:20] if entry.correlation_id else [],
    }


def _describe_side(entry: LogEntry, period: Period, *, is_this: bool) -> Side:
    """An entry beside that of its mirror, or of the request that was mirrored."""
    model = entry.served_model or entry.model
    target = (
        link(entry.provider_name, row_page("providers_provider", entry.provider_id, period)),
        link(model, model_page(model, entry.provider_id, period)),
    )
    return Side(
        entry.pk,
        "Mirror" if entry.entry_type == EntryType.MIRROR else "Original",
        format_html("{}/{}", *target),
        entry.outcome,
        _ms(entry.duration_ms),
        tokens(entry),
        cost(entry),
        price_page(entry),
        _answer_text(entry),
        is_this,
    )


def _answer_text(entry: LogEntry) -> str:
    """What the model said; the whole response if that is no conversation."""
    response = bodies_of(entry.payload)[1]
    turns = conversation(None, response)
    return "\n".join(part.text for turn in turns for part in turn.parts) if turns else _format_json(response)


def _ms(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:,.1f} ms"


def _facts(entry: LogEntry) -> Iterator[tuple[str, object]]:
    """Name and value of each known fact of the entry."""
    facts = {
        "Time (UTC)": utc_time(entry.timestamp, EXACT),
        "Message": entry.message,
        "Outcome": entry.outcome,
        "Status": entry.status,
        "Error": entry.exception,
        "User": entry.username,
        "Key": entry.key_name,
        "Trusted issuer": entry.trusted_issuer,
        "Rule": entry.rule_name,
        "Model": entry.model,
        "Alias": entry.alias,
        "Served by model": entry.served_model if entry.served_model != entry.model else "",
        "Provider": entry.provider_name,
        "Attempts": entry.attempts or "",
        "Cache": _cache_status(entry),
        "Tokens": tokens(entry),
        "Cached tokens": entry.cache_read_tokens,
        "Reasoning": entry.reasoning_tokens,
        "Cost": cost(entry),
        "Saved": _money(entry.saved_cost, entry.currency),
        "Finish reason": " / ".join(filter(None, (entry.finish_reason, entry.provider_finish_reason))),
        "Took": _ms(entry.duration_ms),
        "First byte after": _ms(entry.first_byte_ms),
        "Guardrails": _guardrails(entry),
        "Tags": ", ".join(f"{name}={value}" for name, value in entry.tags.items()),
        "Address": entry.address,
        "Request id": entry.correlation_id,
    }
    return ((name, value) for name, value in facts.items() if value not in ("", None))


def _cache_status(entry: LogEntry) -> str:
    """The result of the cache lookup; '' if the cache was not asked because it was off."""
    is_off = entry.decision is not None and LoggedDecision(*entry.decision).cache == CACHE_OFF
    return "" if is_off else entry.cache_status


_REPAIRED = ", the model was asked a second time"
_REPAIRS = {None: "", True: _REPAIRED, False: f"{_REPAIRED}, without success"}


def _guardrails(entry: LogEntry) -> str:
    """Each guardrail that ran, with its result and how often it found what."""
    return "; ".join(
        f"{one['name']} ({one['direction']}): {one['result']}"
        + "".join(f", {count} × {category}" for category, count in one["counts"].items())
        + _REPAIRS[one.get("repaired")]
        for one in entry.guardrails or ()
    )


class EntryLink(NamedTuple):
    """An action for the request; `is_post`: it answers a question, and the log says who asked."""

    name: str
    page: str
    is_post: bool = False


def _links(entry: LogEntry, period: Period) -> Iterator[EntryLink]:
    """Links that explain the request, allow it, send it again or lock its key."""
    moments = period.moments()
    if entry.entry_type in REQUESTS:
        page = with_query(reverse("admin:explain-entry", args=[entry.pk]), moments)
        yield EntryLink("Explain what happened", page)
    if entry.entry_type != EntryType.WORK_REQUEST:
        return
    if entry.user_id:
        page = with_query(reverse("admin:explain"), {"entry": str(entry.pk)} | moments) + "#explanation"
        yield EntryLink("Explain such a request now", page, is_post=True)
    if page := rule_form(entry):
        yield EntryLink("Allow such requests", page)
    if entry.operation in ("", Operation.CHAT):
        yield EntryLink("Open in playground", f"{reverse('admin:playground')}?entry={entry.pk}")
    if _may_lock(entry.key_id):
        yield EntryLink("Lock this key", reverse("admin:keys_apikey_lock", args=[entry.key_id]))


def _may_lock(key_id: int | None) -> bool:
    return key_id is not None and ApiKey.objects.live().filter(pk=key_id, locked_time=None).exists()


def bodies_of(payload: str) -> tuple[object, object]:
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


def _format_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _candidates(entry: LogEntry, period: Period) -> Iterator[dict[str, str]]:
    """The providers that were considered, with the outcome of each as a label."""
    labels = dict(Candidate.choices)
    pages = provider_pages((name for name, *_ in entry.candidates or []), period)
    for name, result, detail in entry.candidates or []:
        yield {
            "name": name,
            "page": pages.get(name, ""),
            "kind": LABEL_VARIANTS.get(result, ""),
            "label": labels.get(result, result),
            "detail": detail,
        }


def _calls(entry: LogEntry, period: Period) -> Iterator[dict[str, str]]:
    """Each attempt at a provider, with its cause as a label."""
    for attempt in (LoggedAttempt(*values) for values in entry.provider_calls or []):
        yield {
            "provider": attempt.provider_name,
            "provider_page": row_page("providers_provider", attempt.provider_id, period),
            "model": attempt.model,
            "model_page": model_page(attempt.model, attempt.provider_id, period),
            "kind": CAUSE_VARIANTS.get(attempt.cause, "danger"),
            "label": (attempt.cause or "answered").replace("_", " ").capitalize(),
            "detail": format_html_join(", ", "{}", ((part,) for part in _attempt_parts(attempt) if part)),
            "no_price": NO_PRICE if _lacks_price(attempt) else "",
            "price_page": price_form(attempt.model, attempt.provider_id),
        }


def _lacks_price(attempt: LoggedAttempt) -> bool:
    """Whether it answered and has no cost: that of one that failed is unknown also with a price."""
    return not attempt.cost and attempt.cost_status == CostStatus.UNKNOWN and attempt.cause == ANSWERED


def _attempt_parts(attempt: LoggedAttempt) -> tuple[str, ...]:
    cost = money(Decimal(attempt.cost), attempt.currency) if attempt.cost else ""
    unknown = f"cost {attempt.cost_status}" if attempt.cost_status and not _lacks_price(attempt) else ""
    return (
        attempt.exception,
        f"status {attempt.status}",
        f"after {attempt.begin_ms:,.1f} ms, for {attempt.duration_ms:,.1f} ms",
        cost or unknown,
    )


def cost(row: LogEntry) -> str:
    """What the request has cost; '' for one that costs nothing, as it was not served."""
    if row.cost is None and row.cost_status == CostStatus.UNKNOWN:
        return NO_PRICE if row.lacks_price else "unknown"
    return _money(row.cost, row.currency)


def _money(amount: Decimal | None, currency: str) -> str:
    return "" if amount is None else money(amount, currency)


def tokens(row: LogEntry) -> str:
    """Input and output, short, with the exact numbers on hover; '' for an entry without."""
    if row.input_tokens is None and row.output_tokens is None:
        return ""
    mark = " (estimated)" if row.usage_estimated else ""
    input_text, output_text = short_count(all_input(row)), short_count(row.output_tokens or 0)
    return Figure(f"{input_text} in, {output_text} out{mark}", f"{input_text.exact} in, {output_text.exact} out{mark}")


def all_input(row: LogEntry) -> int:
    """All input tokens, cached ones included."""
    return (row.input_tokens or 0) + (row.cache_read_tokens or 0) + (row.cache_write_tokens or 0)
