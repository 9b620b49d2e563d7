"""Stage 9: exactly one WorkRequest entry for each request is written to the journal, whatever happened."""

from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter, time

from gateway_project.errors import (
    MAX_MESSAGE_LENGTH,
    AccessError,
    AuthenticationFailed,
    CredentialRevoked,
    GatewayError,
    GuardrailBlocked,
    LimitError,
    RateLimited,
    ServiceUnavailable,
    UpstreamError,
)
from gateway_project.json_types import JsonObject
from gateway_project.work.bill import Bill
from gateway_project.work.billing import bill_of
from gateway_project.work.cache.packing import CachedAnswer
from gateway_project.work.exchange import Exchange
from gateway_project.work.failover.attempts import failure_count, logged_attempts
from gateway_project.work.failover.outcomes import candidate_outcomes
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.reports import conclude_guarding, logged_guardrails
from gateway_project.work.log.content import loggable_message
from gateway_project.work.log.decision import logged_decision
from gateway_project.work.log.payload import listed_answer, logged_payload
from gateway_project.work.log.refusals import summary_entry
from gateway_project.work.log.samples import write_samples
from gateway_project.work.log.secret_masking import mask_secrets_in_message
from gateway_project.work.log.timestamps import as_timings, milliseconds, timestamp
from gateway_project.work.snapshot.records import Snapshot, Target
from providers.pricing.prices import Cost
from telemetry.journal.files import JournalFull
from telemetry.journal.records import empty_cache_entry, empty_log_entry, to_record
from telemetry.models import LONG_JSON

# Only in the entry of the request, not in its Message: sums over all entries count it once.
COUNTED = {
    *("input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_hour_tokens"),
    *("output_tokens", "reasoning_tokens"),
    *("usage_estimated", "cost", "saved_cost", "currency", "cost_status"),
}

# Of the short form of an entry, written when the disk has no room for all of it.
SHORT_TEXT_BYTES, SHORT_MAX_GROUPS = 52, 30
MAX_ASKED_BEFORE = 20

CANNOT_BE_LOGGED = "The request cannot be logged: the journal's disk is full or not writable."
NOT_COUNTED = {"status": RateLimited.code, "exception": RateLimited.exception}
NOT_LOGGED = {"status": 503, "outcome": "failed"}  # how the metrics count a request that cannot be logged


def write_log(exchange: Exchange, gateway: Gateway) -> None:
    """Write the entry. Raises JournalFull only for a request that was never sent to a provider."""
    started_at = perf_counter()
    exchange.attempts.end_sending()
    if exchange.guarding is not None:
        conclude_guarding(exchange.guarding)
    if exchange.options.body_bytes:
        assert exchange.identity.caller is not None
        gateway.body_memory.release(exchange.options.body_bytes, exchange.identity.caller.id)
    entry, target = empty_log_entry(), exchange.target
    _describe_request(entry, exchange, target)
    _describe_result(entry, exchange, target)
    if not _may_have_entry(exchange, gateway):
        entry["stages"] = as_timings(exchange.timings, exchange.started)
        gateway.metrics.request_ended(entry)
        return
    if exchange.is_mirror:
        _write_mirrored(entry, exchange, gateway, started_at)
        return
    bill = bill_of(exchange, gateway.snapshot)
    _describe_bill(entry, bill)
    if exchange.attempts.sendings:
        _describe_attempts(entry, exchange, bill, gateway.snapshot)
    try:
        _write(entry, exchange, gateway, started_at)
    except JournalFull:
        gateway.metrics.request_ended(entry | NOT_LOGGED)
        raise
    logging_stage, logging_begin, _ = entry["stages"][-1]  # the metrics know all of it
    entry["stages"][-1] = logging_stage, logging_begin, milliseconds(perf_counter() - started_at)
    gateway.metrics.request_ended(entry)
    if (error := exchange.error) is not None and _needs_message_entry(error):
        with suppress(JournalFull):  # the request itself is logged
            gateway.journal.append_event(to_record(_error_entry(entry, exchange, error)))
    if exchange.guarding is not None:
        write_samples(exchange, exchange.guarding, gateway)
    if exchange.identity.key is not None:
        gateway.shipper.record_key_use(exchange.identity.key.id, exchange.started_at)


def _write_mirrored(entry: JsonObject, exchange: Exchange, gateway: Gateway, started_at: float) -> None:
    """Write the entry of a mirrored request: neither metrics of requests nor the use of keys count it."""
    bill = bill_of(exchange, gateway.snapshot)
    _describe_bill(entry, bill)
    if exchange.attempts.sendings:
        _describe_attempts(entry, exchange, bill, gateway.snapshot)
    with suppress(JournalFull):
        _write(entry, exchange, gateway, started_at)


def write_refusal(exchange: Exchange, gateway: Gateway) -> None:
    """Write the Message entry of a refused request that is no work: neither usage nor metrics count it."""
    error = exchange.error
    assert error is not None
    if not _may_have_entry(exchange, gateway):
        return
    entry, target = empty_log_entry(), exchange.target
    _describe_request(entry, exchange, target)
    _describe_result(entry, exchange, target)
    with suppress(JournalFull):
        gateway.journal.append_event(to_record(_error_entry(entry, exchange, error)))


def write_refusal_counts(gateway: Gateway, *, at_once: bool = False) -> None:
    """Write an entry for each kind of refusals that had none of their own, once a minute or at once."""
    for refusal, count in gateway.refusals.take_counts(at_once=at_once).items():
        with suppress(JournalFull):
            gateway.journal.append_event(to_record(summary_entry(refusal, count, timestamp(time()))))


def _may_have_entry(exchange: Exchange, gateway: Gateway) -> bool:
    """Whether a request gets an entry of its own; of requests without a known caller only some do.

    Anybody can send those, as often as they like, and a gateway that is full refuses all requests before it reads
    their credentials.
    """
    if exchange.identity.key is not None or exchange.identity.caller is not None or exchange.error is None:
        return True
    return gateway.refusals.may_log(exchange.connection.address, type(exchange.error))


def _write(entry: JsonObject, exchange: Exchange, gateway: Gateway, started_at: float) -> None:
    entry["payload"] = logged_payload(exchange)
    # What is written cannot say how long that takes: its end is that of the preparation.
    steps = [*exchange.timings, ("logging", started_at, perf_counter())]
    entry["stages"] = as_timings(steps, exchange.started)
    record = to_record(entry)
    entry["payload"] = ""  # no other record has it
    number = exchange.journal_number
    if number is None:
        gateway.journal.append_complete(record)
    else:
        exchange.journal_number = None
        gateway.journal.append_end(number, record, lambda: to_record(_shorten_entry(entry)))


def write_start(exchange: Exchange, gateway: Gateway, *, calls_provider: bool) -> None:
    """Write the start record before the request waits or calls a provider; without an end it becomes `aborted`.

    What is aborted before the limits have counted it is logged as refused by them, so that no usage counts it either.
    Raises ServiceUnavailable.
    """
    is_counted = exchange.limits.statuses is not None
    if exchange.journal_number is not None and not calls_provider and is_counted == exchange.is_start_counted:
        return
    sendings, target = exchange.attempts.sendings, exchange.target
    entry: JsonObject = {"attempts": len(sendings) + calls_provider}
    _describe_request(entry, exchange, target)
    if sendings:
        entry["asked_before"] = _other_provider_ids(exchange, target)
    if not is_counted:
        entry.update(NOT_COUNTED)
    exchange.is_start_counted = is_counted
    try:
        if exchange.journal_number is None:
            exchange.journal_number = gateway.journal.append_start(to_record(entry))
        else:
            gateway.journal.append_start_again(exchange.journal_number, to_record(entry))
    except JournalFull as error:
        raise ServiceUnavailable(CANNOT_BE_LOGGED) from error


def cache_record(
    exchange: Exchange, answer: CachedAnswer, seconds: int, cost: Cost | None
) -> tuple[JsonObject, Sequence[bytes] | None]:
    """The row that lists a cached answer for administrators, and what is kept of request and answer."""
    caller, target = exchange.identity.caller, exchange.target
    assert caller is not None
    assert target is not None
    entry = empty_cache_entry()
    now = time()
    is_stream = answer.chunk_sizes is not None
    text, parts = listed_answer(exchange, answer.body, target.provider, is_stream=is_stream)
    entry.update(
        request_hash=exchange.cache.key,
        response=text,
        content_type=answer.content_type,
        chunks=is_stream,
        provider_id=answer.provider_id,
        provider_name=answer.provider,
        model=exchange.model,
        served_model=target.model,
        user_id=caller.id,
        username=caller.name,
        created_at=timestamp(now),
        expires_at=timestamp(now + seconds),
        size_bytes=len(answer.body),
        cost=None if cost is None or cost.amount is None else f"{cost.amount:f}",
        currency=None if cost is None else cost.currency,
    )
    return entry, parts


def _describe_request(entry: JsonObject, exchange: Exchange, target: Target | None) -> None:
    """Add to the entry the user, the model and the provider of the request, as far as they are known by now."""
    identity, decision, request = exchange.identity, exchange.decision, exchange.request
    entry |= {
        "entry_type": "Mirror" if exchange.is_mirror else "WorkRequest",
        "timestamp": timestamp(exchange.started_at),
        "correlation_id": exchange.request_id,
        "address": exchange.connection.address,
    }
    if (caller := identity.caller) is not None:
        entry["user_id"], entry["username"], entry["group_ids"] = caller.id, caller.name, caller.group_ids
    if (key := identity.key) is not None:
        entry["key_id"], entry["key_name"] = key.id, key.name
    elif issuer := identity.trusted_issuer:
        entry["trusted_issuer"] = issuer
    if (alias := decision.alias) is not None:
        entry["alias"] = alias.name
    if (rule := decision.rule) is not None:
        entry["rule_id"], entry["rule_name"] = rule.id, rule.name
    if target is not None:
        provider = target.provider
        entry["provider_id"], entry["provider_name"], entry["served_model"] = provider.id, provider.name, target.model
    if request is not None:
        entry |= {
            "operation": request.operation,
            "stream": request.stream,
            "model": request.model,
            "cache_status": exchange.cache.status if target is not None else _early_cache_status(exchange),
            "cache_hash": exchange.cache.key,
            "tags": exchange.options.tags,
        }


def _early_cache_status(exchange: Exchange) -> str:
    """The result of the cache lookup of a request that has no target.

    It is empty if the request was refused before the lookup, unless it bypasses the cache.
    """
    if exchange.options.cache_control == "bypass":
        return exchange.cache.status
    is_looked_up = exchange.cache.key and not isinstance(exchange.error, LimitError)
    return exchange.cache.status if is_looked_up else ""


def _describe_result(entry: JsonObject, exchange: Exchange, target: Target | None) -> None:
    """Add to the entry how the request ended."""
    error, sendings, first_byte_ms = exchange.error, exchange.attempts.sendings, exchange.delivery.first_byte_ms
    outcome, duration_ms = exchange.outcome or outcome_of(error), exchange.limits.duration_ms
    entry |= {
        "outcome": outcome,
        "entry_source": "Cache" if exchange.is_from_others else "Worker" if sendings else "Not Set",
        "status": 200 if error is None or first_byte_ms else error.code,
        "message": _message(exchange, target, outcome),
        "duration_ms": round(exchange.elapsed_ms() if duration_ms is None else duration_ms, 3),
        "first_byte_ms": first_byte_ms,
        "candidates": candidate_outcomes(exchange, target),
        "decision": logged_decision(exchange, target),
    }
    if error is not None:
        entry["severity"], entry["exception"] = error.severity, error.exception
    if sendings:
        entry["attempts"], entry["asked_before"] = len(sendings), _other_provider_ids(exchange, target)
    if (answer := exchange.answer) is not None:
        entry["finish_reason"] = answer.finish_reason
        entry["provider_finish_reason"] = answer.provider_finish_reason[:128]
    if exchange.guarding is not None:
        entry["guardrails"] = logged_guardrails(exchange.guarding)


def _other_provider_ids(exchange: Exchange, target: Target | None) -> list[int] | None:
    """The ids of providers that were asked besides the entry's own: their quotas count the request too."""
    sendings = exchange.attempts.sendings
    if len(sendings) == 1 and sendings[0].target is target:
        return None
    others = [number for number in exchange.attempts.provider_ids if target is None or number != target.provider.id]
    return list(dict.fromkeys(others))[:MAX_ASKED_BEFORE] or None


def outcome_of(error: GatewayError | None) -> str:
    """The outcome that follows from an error alone."""
    if error is None:
        return "completed"
    if isinstance(error, GuardrailBlocked):
        return "blocked"
    if isinstance(error, CredentialRevoked):
        return "revoked"
    return "denied" if isinstance(error, AccessError | LimitError) else "failed"


def _describe_bill(entry: JsonObject, bill: Bill) -> None:
    """Add to the entry what the request used and cost, as far as it is known."""
    usage, estimated, cost, saved, _ = bill
    if usage is not None:
        entry |= {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
            "cache_write_hour_tokens": usage.cache_write_hour,
            "reasoning_tokens": usage.reasoning,
            "usage_estimated": estimated,
        }
    if cost is not None:
        entry["cost_status"], entry["currency"] = cost.status, cost.currency
        entry["cost"] = None if cost.amount is None else f"{cost.amount:f}"
        entry["saved_cost"] = None if saved is None else f"{saved:f}"


def _describe_attempts(entry: JsonObject, exchange: Exchange, bill: Bill, snapshot: Snapshot) -> None:
    """Add to the entry each sending to a provider; without one, as for an answer from the cache, it has null."""
    entry["provider_calls"] = list(map(list, logged_attempts(exchange, bill, snapshot)))
    entry["failed_attempts"] = failure_count(exchange) or None


def _message(exchange: Exchange, target: Target | None, outcome: str) -> str:
    model = exchange.model
    if outcome == "completed" and exchange.cache.hit is not None:
        return f"{model} answered from the cache."
    provider = "" if target is None else target.provider.name
    if outcome == "completed":
        return f"{model} answered by {provider}."
    if outcome == "client_closed":
        return f"The client disconnected before {model or 'the request'} was answered."
    if exchange.error is not None:
        return _error_message(exchange, exchange.error)
    return f"{model} of {provider} did not complete its answer."


def _error_message(exchange: Exchange, error: GatewayError) -> str:
    """The error's message, prefixed with the provider's name if it is the provider's error."""
    message, target = mask_secrets_in_message(loggable_message(error, exchange)), exchange.target
    if target is not None and isinstance(error, UpstreamError):
        return f"{target.provider.name}: {message}"
    return message


def _needs_message_entry(error: GatewayError) -> bool:
    """Whether a Message entry follows; not for a bad credential, which anybody can send as often as they like."""
    return error.severity != "info" and not isinstance(error, AuthenticationFailed)


def _error_entry(entry: JsonObject, exchange: Exchange, error: GatewayError) -> JsonObject:
    """A Message entry with the error and its cause.

    A cause may name internal addresses: such an entry belongs to no user and no group, so that only admins read it. For
    refused credentials, which others see, the log has none.
    """
    cause = None if isinstance(error, AuthenticationFailed) else error.__cause__
    context = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    if exchange.target is not None:  # a library's message may quote a URL that contains the credential
        context = exchange.target.provider.redact(context)
    message = f"{_error_message(exchange, error)}{mask_secrets_in_message(context)[:MAX_MESSAGE_LENGTH]}"
    return empty_log_entry() | {
        **{name: value for name, value in entry.items() if name not in COUNTED},
        "entry_type": "Message",
        "message": message,
        "stages": [],
        **dict.fromkeys(LONG_JSON),
        **({"user_id": None, "group_ids": []} if cause is not None else {}),
    }


def _shorten_entry(entry: JsonObject) -> JsonObject:
    """The entry without what can be long: the journal always has room for it (RESERVE_BYTES)."""
    cut = {
        name: _cut_text(value) for name, value in entry.items() if isinstance(value, str) and name != "correlation_id"
    }
    groups = entry["group_ids"][:SHORT_MAX_GROUPS]
    unlisted = dict.fromkeys(("asked_before", *LONG_JSON))
    return entry | cut | unlisted | {"group_ids": groups, "stages": [], "tags": {}, "cache_hash": ""}


def _cut_text(text: str) -> str:
    """Its first SHORT_TEXT_BYTES, which take at most twice as many bytes as JSON."""
    begin = text.encode()[:SHORT_TEXT_BYTES].decode(errors="ignore")
    return begin if begin.isprintable() else "".join(one if one.isprintable() else "?" for one in begin)
