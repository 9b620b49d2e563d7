"""Requests and whole answers on their way through the pipeline: searched, changed or refused."""

from dataclasses import replace
from time import perf_counter

from gateway_project.work.exchange import Exchange, Guarding
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.answers import guard_whole_answer
from gateway_project.work.guardrails.book import REQUEST, Applicable, CallerFacts, Side
from gateway_project.work.guardrails.detectors.redaction import Placeholders
from gateway_project.work.guardrails.remote.judging import judge, replacing
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.texts import of_whole_texts, rewrite
from gateway_project.work.limits.admission import count_request
from gateway_project.work.snapshot.records import AliasSnapshot, Caller, KeySnapshot, Snapshot
from providers.formats.json_values import dumped
from rules.matching import RuleSnapshot

NAME = "guardrails"  # in Server-Timing and the log
# A longer request is counted before it is searched: whoever is over a limit costs a round trip, and no search.
COUNTED_FIRST_BYTES = 16 * 1024


def applicable_guardrails(
    snapshot: Snapshot,
    caller: Caller,
    key: KeySnapshot | None = None,
    rule: RuleSnapshot | None = None,
    alias: AliasSnapshot | None = None,
) -> Applicable | None:
    """The guardrails for requests of this caller with this key that this rule allows; None if there are none. Pure."""
    if snapshot.guardrails is None:
        return None
    return snapshot.guardrails.applicable(
        CallerFacts(
            caller.id,
            caller.group_ids,
            None if key is None else key.id,
            None if rule is None else rule.id,
            "" if alias is None else alias.name,
        )
    )


def guard_request(exchange: Exchange, gateway: Gateway) -> None:
    """Search the request; take out of it what guardrails redact. Raises GuardrailBlocked.

    What a guardrail blocks is taken out, too: only then is the error raised, so that no log has the match.
    """
    if gateway.snapshot.guardrails is None:
        return
    identity, decision = exchange.identity, exchange.decision
    assert identity.caller is not None
    applicable = applicable_guardrails(gateway.snapshot, identity.caller, identity.key, decision.rule, decision.alias)
    if applicable is None:
        return
    exchange.guarding = guarding = Guarding(applicable)
    if applicable.requests is not None:
        begun = perf_counter()
        try:
            _search_request(exchange, gateway, guarding, applicable.requests)
        finally:
            exchange.record_timing(NAME, begun)


def guard_answer(exchange: Exchange, gateway: Gateway) -> None:
    """Search a whole answer, the provider's or a cached one, for the caller who gets it. Raises GuardrailBlocked."""
    if exchange.guarding is None:
        return
    begun = perf_counter()
    try:
        guard_whole_answer(exchange, gateway, exchange.guarding)
    finally:
        exchange.record_timing(NAME, begun)


def _search_request(exchange: Exchange, gateway: Gateway, guarding: Guarding, side: Side) -> None:
    request = exchange.request
    assert request is not None
    if len(request.raw) > COUNTED_FIRST_BYTES:
        count_request(exchange, gateway)
    placeholders = Placeholders([request.raw.decode()]) if side.has_placeholders else None
    guarding.request_search = search = Search(side, placeholders, is_of_answer=False)
    search.note_model(request.model)
    replacements = judge(exchange, gateway, search, REQUEST, request.body) if side.remote else {}
    body = rewrite(request.body, of_whole_texts(replacing(replacements, search)))
    if body is not request.body:
        exchange.request = replace(request, body=body, raw=dumped(body))
    if placeholders:
        guarding.placeholders = placeholders
    search.raise_if_blocked("request")
