"""What happened to a request, in plain English, and what the log does not know of it."""

from collections.abc import Iterator

from gateway_project.work.explain.recorded.offers import attempts_of, caller_of
from gateway_project.work.explain.remedies import rule_remedies
from gateway_project.work.explain.rules import Consideration
from gateway_project.work.explain.sentences import counted, rules_sentences
from telemetry.details import all_input
from telemetry.models import CacheStatus, LogEntry, Outcome

NOT_RECORDED = (
    "The log does not have how full the limits were, nor the request as the provider got it.",
    "Names of users, groups and providers in reasons are those of today.",
)
ENDINGS = {
    Outcome.DENIED: "The request was refused with {error}.",
    Outcome.FAILED: "The request failed with {error}.",
    Outcome.TRUNCATED: "The answer ended before it was complete: {error}.",
    Outcome.CLIENT_CLOSED: "The client disconnected before the request was answered.",
    Outcome.ABORTED: "The process that served the request ended before the answer was complete.",
}
CACHE = {
    CacheStatus.HIT: "A stored answer was served, and no provider was called.",
    CacheStatus.MISS: "No stored answer fitted.",
    CacheStatus.BYPASS: "The request bypassed the cache.",
}


def sentences_of(entry: LogEntry, consideration: Consideration) -> list[str]:
    """What happened and why, what would have had to be different for a refusal, and what is not known."""
    parts = (_ending(entry, consideration), _caller(entry), _rules(entry, consideration), _targets(entry), _use(entry))
    return [*(sentence for part in parts for sentence in part), *NOT_RECORDED]


def _ending(entry: LogEntry, consideration: Consideration) -> Iterator[str]:
    error = f"{entry.status} {entry.exception}: {entry.message}".rstrip(".")
    ending = ENDINGS.get(Outcome(entry.outcome)) if entry.outcome in Outcome.values else None
    yield ending.format(error=error) if ending else "The request was served."
    if entry.exception == "RuleDenied":
        yield from rule_remedies(consideration, caller_of(entry), is_alias=bool(entry.alias))


def _caller(entry: LogEntry) -> Iterator[str]:
    if entry.user_id is None:
        yield "Its credential was not accepted."
        return
    yield f"User {entry.username} sent it {f'with key {entry.key_name}' if entry.key_id else 'without an API key'}."
    if entry.alias:
        named = "" if entry.alias == entry.model else f" by its pattern {entry.alias}"
        yield f"The model {entry.model} was an alias{named}."


def _rules(entry: LogEntry, consideration: Consideration) -> Iterator[str]:
    if entry.candidates is None:
        return
    matching = [one.rule for one in consideration.rules if one.has_matched and not one.rule.denies]
    yield from rules_sentences(consideration, entry.rule_name or None, past=True)
    if entry.rule_id is not None and matching and entry.rule_id not in {rule.id for rule in matching}:
        yield f"The rules had just been changed: by those at this moment rule {matching[0].name} allows it."


def _targets(entry: LogEntry) -> Iterator[str]:
    for attempt in attempts_of(entry):
        ending = "answered" if not attempt.cause else f"failed ({attempt.exception})"
        yield f"Provider {attempt.provider_name} was asked for {attempt.model} and {ending}."


def _use(entry: LogEntry) -> Iterator[str]:
    if sentence := CACHE.get(CacheStatus(entry.cache_status)):
        yield sentence
    if entry.input_tokens is None and entry.output_tokens is None:
        return
    tokens = f"{counted(all_input(entry), 'input token')} and {counted(entry.output_tokens or 0, 'output token')}"
    cost = "its cost is unknown" if entry.cost is None else f"cost {entry.cost.normalize():f} {entry.currency}".rstrip()
    yield f"It used {tokens}, and {cost}."
