"""The results of guardrails, for the log, the metrics and explanations."""

import logging

from gateway_project.json_types import JsonObject
from gateway_project.work.exchange import Guarding
from gateway_project.work.guardrails.book import REQUEST, RESPONSE, GuardrailSnapshot
from gateway_project.work.guardrails.searching import Search, Tally

log = logging.getLogger("gateway.guardrails")

MAX_CATEGORIES = 20  # that an entry lists of one guardrail
MAX_LOGGED = 100  # guardrails that an entry lists


def conclude_guarding(guarding: Guarding) -> None:
    """Wait for what services say that only record, also of a stream that has not reached its end. Raises nothing."""
    try:
        if guarding.stream is not None:
            guarding.stream.leave()
    except Exception:
        log.exception("Guardrail services cannot be called for a stream that ended early.")
    for search in guarding.searches:
        search.note_late()


def logged_guardrails(guarding: Guarding) -> list[JsonObject] | None:
    """Each guardrail that ran with its result, but without its matches. None if none ran."""
    rows = [
        _row(tally, direction)
        for search, direction in ((guarding.request_search, REQUEST), (guarding.answer_search, RESPONSE))
        if isinstance(search, Search)
        for tally in search.tallies.values()
    ]
    return rows[:MAX_LOGGED] or None


def logged_answer(guarding: Guarding) -> tuple[bytes, int] | None:
    """The answer without what guardrails have taken out of it, and its size; None if it is logged as it is."""
    if guarding.logged is not None:
        return guarding.logged, len(guarding.logged)
    if guarding.stream is not None and guarding.changes_answers:
        return guarding.stream.logged, guarding.stream.size
    return None


def _row(tally: Tally, direction: str) -> JsonObject:
    guardrail = tally.guardrail
    return {
        "id": guardrail.id,
        "name": guardrail.name,
        "direction": direction,
        "action": guardrail.action,
        "result": tally.result,
        "milliseconds": round(tally.seconds * 1000, 3),
        "counts": dict(tally.counts.most_common(MAX_CATEGORIES)),
        **({"repairs": True} if direction == RESPONSE and guardrail.detector.repairs else {}),
        **({} if tally.repaired is None else {"repaired": tally.repaired}),
    }


def explained_guardrails(guarding: Guarding | None) -> list[JsonObject]:
    """Each guardrail that applies, in order; `result` is null for those that wait for an answer, or ask a service."""
    if guarding is None:
        return []
    search = guarding.request_search
    tallies = {} if search is None else search.tallies
    return [_explain_guardrail(guardrail, tallies.get(guardrail.id)) for guardrail in guarding.applicable.guardrails]


def _explain_guardrail(guardrail: GuardrailSnapshot, tally: Tally | None) -> JsonObject:
    sides = ((REQUEST, guardrail.is_for_requests), (RESPONSE, guardrail.is_for_answers))
    return {
        "id": guardrail.id,
        "name": guardrail.name,
        "action": guardrail.action,
        "directions": [direction for direction, is_searched in sides if is_searched],
        "repairs": guardrail.is_for_answers and guardrail.detector.repairs,
        "result": None if tally is None or guardrail.service is not None else tally.result,
        "counts": {} if tally is None else dict(tally.counts.most_common(MAX_CATEGORIES)),
    }
