"""Requests on their way to a provider: which guardrails apply to them, and what these take out or refuse."""

from gateway_project.work.exchange import Decision, Exchange, Guarding
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.book import REQUEST, Applicable, CallerFacts, Side, rule_ids_of
from gateway_project.work.guardrails.conversations import placeholder_key
from gateway_project.work.guardrails.detectors.redaction import Placeholders
from gateway_project.work.guardrails.remote.judging import judge_document, replacing_visit
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.texts import of_whole_texts, rewrite_texts
from gateway_project.work.limits.admission import count_request
from gateway_project.work.reading.body import replace_body
from gateway_project.work.snapshot.records import Caller, KeySnapshot, Snapshot
from providers.catalogue import servable_targets
from providers.formats import WorkRequest

# A longer request is counted before it is searched: whoever is over a limit costs a round trip, and no search.
COUNTED_FIRST_BYTES = 16 * 1024


def choose_guardrails(exchange: Exchange, gateway: Gateway) -> Guarding | None:
    """Set the guardrails that apply to the request and its answer; None if there are none."""
    identity = exchange.identity
    assert identity.caller is not None
    applicable = _applicable(gateway.snapshot, identity.caller, identity.key, exchange.decision)
    exchange.guarding = None if applicable is None else Guarding(applicable)
    return exchange.guarding


def _applicable(snapshot: Snapshot, caller: Caller, key: KeySnapshot | None, decision: Decision) -> Applicable | None:
    """The guardrails for requests of this caller with this key that rules allow so; None if there are none. Pure."""
    book = snapshot.guardrails
    if book is None:
        return None
    alias = "" if decision.alias is None else decision.alias.name
    rule_ids = _rule_ids(snapshot, caller, decision) if book.names_rules else frozenset()
    facts = CallerFacts(caller.id, caller.group_ids, None if key is None else key.id, rule_ids, alias)
    return book.applicable(facts)


def _rule_ids(snapshot: Snapshot, caller: Caller, decision: Decision) -> frozenset[int]:
    rule_id = None if decision.rule is None else decision.rule.id
    targets = () if decision.alias is None else servable_targets(decision.allowed)
    return rule_ids_of(rule_id, snapshot.rules, targets, user_id=caller.id, group_ids=caller.group_ids)


def search_request(exchange: Exchange, gateway: Gateway, guarding: Guarding, side: Side) -> None:
    """Search the request, and go on without what guardrails take out of it. Raises GuardrailBlocked.

    What a guardrail blocks is taken out, too: only then is the error raised, so that no log has the match.
    """
    request = exchange.request
    assert request is not None
    if len(request.raw) > COUNTED_FIRST_BYTES:
        count_request(exchange, gateway)
    placeholders = _placeholders(exchange, request) if side.has_placeholders else None
    guarding.request_search = search = Search(side, placeholders, is_of_answer=False)
    search.note_model(request.model)
    search.note_unreadable(request.body)
    replacements = judge_document(exchange, gateway, search, REQUEST, request.body) if side.remote else {}
    body = rewrite_texts(request.body, of_whole_texts(replacing_visit(replacements, search)))
    if body is not request.body:
        replace_body(exchange, body)
    if placeholders:
        guarding.placeholders = placeholders
    search.raise_if_blocked("request")


def _placeholders(exchange: Exchange, request: WorkRequest) -> Placeholders:
    caller = exchange.identity.caller
    assert caller is not None
    return Placeholders([request.raw.decode()], placeholder_key(request, exchange.decision.allowed, caller))
