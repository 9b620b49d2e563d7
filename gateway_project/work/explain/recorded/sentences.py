"""What happened to a request, in plain English, and what the log does not contain."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway_project.errors.client_errors import LIMIT_ERROR_NAMES
from gateway_project.json_types import JsonObject
from gateway_project.work.cache.verdict import BYPASS, HIT, IN_FLIGHT, MISS, OFF, REFRESH
from gateway_project.work.explain.recorded.limits import RecordedLimit, decision_of
from gateway_project.work.explain.recorded.offers import attempts_of, caller_of
from gateway_project.work.explain.remedies import rule_remedies
from gateway_project.work.explain.rules import Consideration
from gateway_project.work.explain.sentences import count_of, rules_sentences
from gateway_project.work.limits.checks import USE
from telemetry.details import all_input
from telemetry.models import LogEntry, Outcome

ENDINGS = {
    Outcome.DENIED: "The request was refused with {error}.",
    Outcome.FAILED: "The request failed with {error}.",
    Outcome.TRUNCATED: "The answer ended before it was complete: {error}.",
    Outcome.CLIENT_CLOSED: "The client disconnected before the request was answered.",
    Outcome.ABORTED: "The process that served the request ended before the answer was complete.",
}
CACHE = {
    HIT: "A stored answer was served, and no provider was called.",
    IN_FLIGHT: "The answer of an identical request in flight was served, and no provider was called.",
    MISS: "No stored answer fitted.",
    REFRESH: "The request asked for a fresh answer.",
    BYPASS: "The request bypassed the cache.",
    OFF: "The answer was not stored, or the request did not reach the cache.",
}
UNKNOWN_OUTGOING = "The log does not have the request that was sent to the provider."
UNKNOWN_LIMITS = "The log does not have the state of the limits."
UNKNOWN_ESTIMATE = "The log does not have an estimate, because no limit needed one."
UNKNOWN_USES = "The log does not have the number of active uses, because the licence did not limit them."
UNKNOWN_AGE = "The log does not have the age of the stored answer."
NAMES_OF_TODAY = "Reasons use today's names of users, groups and providers."


class Facts(NamedTuple):
    """What is known of a request that has ended."""

    entry: LogEntry
    consideration: Consideration
    limits: Sequence[RecordedLimit]
    cache: JsonObject


def sentences_of(facts: Facts) -> list[str]:
    """What happened and why, what would have had to be different for a refusal, and what is not known."""
    entry, consideration, _, _ = facts
    parts = (
        _describe_ending(entry, consideration),
        _caller(entry),
        _rules(entry, consideration),
        _targets(entry),
        _limits(facts),
        _use(facts),
        _not_recorded(facts),
    )
    return [sentence for part in parts for sentence in part]


def _describe_ending(entry: LogEntry, consideration: Consideration) -> Iterator[str]:
    error = f"{entry.status} {entry.exception}: {entry.message}".rstrip(".")
    ending = ENDINGS.get(Outcome(entry.outcome)) if entry.outcome in Outcome.values else None
    yield ending.format(error=error) if ending else "The request was served."
    if entry.exception == "RuleDenied":
        yield from rule_remedies(consideration, caller_of(entry), is_alias=bool(entry.alias))


def _caller(entry: LogEntry) -> Iterator[str]:
    if entry.user_id is None:
        yield "Its credential was not accepted."
        return
    yield f"User {entry.username} sent it {_credential(entry)}."
    if entry.alias:
        pattern = "" if entry.alias == entry.model else f" by its pattern {entry.alias}"
        yield f"The model {entry.model} was an alias{pattern}."


def _credential(entry: LogEntry) -> str:
    if entry.key_id:
        return f"with key {entry.key_name}"
    return f"with a token of {entry.trusted_issuer}" if entry.trusted_issuer else "without an API key"


def _rules(entry: LogEntry, consideration: Consideration) -> Iterator[str]:
    if entry.candidates is None:
        return
    matching = [one.rule for one in consideration.rules if one.has_matched and not one.rule.denies]
    yield from rules_sentences(consideration, entry.rule_name or None, past=True)
    if entry.rule_id is not None and matching and entry.rule_id not in {rule.id for rule in matching}:
        yield f"The rules had just changed. By the rules of this moment, rule {matching[0].name} allows the request."


def _targets(entry: LogEntry) -> Iterator[str]:
    for attempt in attempts_of(entry):
        ending = "answered" if not attempt.cause else f"failed ({attempt.exception})"
        yield f"Provider {attempt.provider_name} was asked for {attempt.model} and {ending}."


def _limits(facts: Facts) -> Iterator[str]:
    """How many limits had room, and what they had to have room for; of a refusal the error says it.

    A provider that was passed over may have had a full one.
    """
    entry, decision = facts.entry, decision_of(facts.entry)
    own = [reading for reading, _ in facts.limits if not reading.check.limit.subject.is_upstream]
    if own and entry.exception not in LIMIT_ERROR_NAMES:
        yield f"{count_of(len(own), 'limit')} of the caller had room."
    if decision is not None and decision.input_tokens is not None:
        tokens = count_of(decision.input_tokens, "input token")
        yield f"The estimate was {tokens} and at most {count_of(decision.output_tokens or 0, 'output token')}."
    for run in entry.guardrails or ():
        yield f"Guardrail {run['name']} searched the {run['direction']}: {run['result']}."


def _use(facts: Facts) -> Iterator[str]:
    entry = facts.entry
    if entry.user_id is not None and facts.cache["verdict"] in CACHE:
        yield CACHE[facts.cache["verdict"]]
    if entry.input_tokens is None and entry.output_tokens is None:
        return
    tokens = f"{count_of(all_input(entry), 'input token')} and {count_of(entry.output_tokens or 0, 'output token')}"
    cost = "its cost is unknown" if entry.cost is None else f"cost {entry.cost.normalize():f} {entry.currency}".rstrip()
    yield f"It used {tokens}, and {cost}."


def _not_recorded(facts: Facts) -> Iterator[str]:
    """What belongs to an explanation and is not in the log."""
    yield UNKNOWN_OUTGOING
    decision = decision_of(facts.entry)
    if decision is None or decision.limits is None:
        yield UNKNOWN_LIMITS
    elif not any(reading.check.kind == USE for reading, _ in facts.limits):
        yield UNKNOWN_USES
    if decision is None or decision.input_tokens is None:
        yield UNKNOWN_ESTIMATE
    if facts.cache["verdict"] == HIT and facts.cache["ageSeconds"] is None:
        yield UNKNOWN_AGE
    yield NAMES_OF_TODAY
