"""Guardrails that a draft touches: what those of now and those of the draft do with recorded requests and answers.

All others are taken as they were.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from gateway_project.errors import GuardrailBlocked, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.book import BLOCK, REQUEST, RESPONSE, CallerFacts, GuardrailBook, Side, rule_ids_of
from gateway_project.work.guardrails.book import GuardrailSnapshot as Snapshot
from gateway_project.work.guardrails.loading import guardrail_record
from gateway_project.work.guardrails.remote.compilation import compile_guardrail
from gateway_project.work.guardrails.searching import PASSED, RESULTS, Search
from gateway_project.work.guardrails.texts import of_whole_texts, rewrite_texts
from gateway_project.work.snapshot.records import Caller, Target
from gateway_project.work.what_if.drafts import GUARDRAILS, Draft, RowDraft
from gateway_project.work.what_if.guardrails.counts import (
    MONITORED,
    TAKEN_OUT,
    UNKNOWN,
    GuardrailCounts,
    strictest_result,
)
from gateway_project.work.what_if.traffic import RequestRecord, Traffic
from rules.guardrails.audience import check_audience
from rules.guardrails.models import Guardrail, GuardrailType, default_action, for_everyone
from rules.matching import RuleBook
from telemetry.log_page.logged_json import logged_object
from telemetry.models import Outcome

BLOCKED = RESULTS[BLOCK]
DIRECTIONS = (REQUEST, RESPONSE)
SECRET = "secret"  # the parameter that is stored by itself
EVENTS = ("data:", "event:", ":")  # how a stream of events begins


class Verdict(Enum):
    """What a draft of guardrails changes for a request."""

    SAME = "same"
    DENIED = "denied"
    RELEASED = "released"
    UNKNOWN = "unknown"


class Texts(NamedTuple):
    """The request and its answer, as far as they were kept; None: not at all."""

    request: JsonObject | None
    response: object
    is_raw: bool = False  # the answer is a stream, or was cut: what its parts come to is not known


class Results(NamedTuple):
    """What guardrails do with a request, by id: those that are now, and those of the draft."""

    before: Mapping[int, str]
    after: Mapping[int, str]
    may_be_blocked: bool = False  # by one of which it is unknown what it would do


class GuardrailTrial:
    """The guardrails of a draft beside those that they replace or that are deleted."""

    def __init__(self, draft: Draft) -> None:
        touched = draft.replaced_ids(GUARDRAILS)
        rows = {row.pk: row for row in Guardrail.objects.filter(pk__in=touched)}
        if missing := touched - rows.keys():
            raise ValidationError(f"no row with id {min(missing)}.", field=GUARDRAILS)
        drafted = [_guardrail_row(row, -number) for number, row in enumerate(draft.of(GUARDRAILS), start=1)]
        before = [guardrail_record(row) for row in rows.values() if row.enabled]
        after = [guardrail_record(row) for row in drafted if row.enabled]
        self._sources = {row.pk: guardrail_record(row).source for row in rows.values()}
        self._touched = touched
        self._before, self._after = GuardrailBook(before), GuardrailBook(after)
        self.counts = {row.pk: _counts_of(row) for row in (*rows.values(), *drafted)}

    def judge(self, traffic: Traffic, caller: Caller, rules: RuleBook, targets: Iterable[Target]) -> Verdict:
        """What the draft changes for a request that rules and limits let pass, to these targets."""
        record = traffic.record
        assert record is not None, "texts are searched one request after the other"
        if record.outcome == Outcome.DENIED or _stays_blocked(record, self._touched):
            return Verdict.SAME
        results = self._results(traffic, record, self._facts(traffic, record, caller, rules, targets))
        for guardrail_id, counts in self.counts.items():
            counts.add(traffic, results.before.get(guardrail_id, PASSED), results.after.get(guardrail_id, PASSED))
        return _verdict(record, results)

    def _facts(
        self, traffic: Traffic, record: RequestRecord, caller: Caller, rules: RuleBook, targets: Iterable[Target]
    ) -> CallerFacts:
        rule_ids: frozenset[int] = frozenset()
        if self._before.names_rules or self._after.names_rules:
            own = targets if record.alias else ()
            rule_ids = rule_ids_of(record.rule_id, rules, own, user_id=caller.id, group_ids=caller.group_ids)
        return CallerFacts(caller.id, caller.group_ids, traffic.key_id, rule_ids, record.alias)

    def _results(self, traffic: Traffic, record: RequestRecord, facts: CallerFacts) -> Results:
        earlier = {one: result for one, result in _recorded_results(record, DIRECTIONS).items() if one in self._touched}
        applicable = [book.applicable(facts) for book in (self._before, self._after)]
        if not earlier and applicable == [None, None]:
            return Results({}, {})
        texts = _texts(record.payload)
        is_whole = texts.request is not None
        before, after = (
            _search_texts(one.requests, one.answers, texts, traffic.model) if one is not None and is_whole else {}
            for one in applicable
        )
        guardrails = () if applicable[1] is None else applicable[1].guardrails
        drafted = {one: self._result(one, after.get(one.id), record, texts) for one in guardrails}
        may_be_blocked = any(one.action == BLOCK and result == UNKNOWN for one, result in drafted.items())
        return Results({**before, **earlier}, {one.id: result for one, result in drafted.items()}, may_be_blocked)

    def _result(self, guardrail: Snapshot, searched: str | None, record: RequestRecord, texts: Texts) -> str:
        """What a guardrail of the draft does with a request, by what is found now and what was found then."""
        sides = ((REQUEST, guardrail.is_for_requests), (RESPONSE, guardrail.is_for_answers))
        directions = [direction for direction, is_searched in sides if is_searched]
        earlier = _recorded_results(record, directions).get(guardrail.id)
        result = PASSED
        if earlier is not None and self._sources.get(guardrail.id) == guardrail.source:
            result = RESULTS[guardrail.action] if earlier in (*TAKEN_OUT, MONITORED) else earlier
            if result == BLOCKED or _has_run(record, guardrail.id, directions):
                return result
        is_known = texts.request is not None and guardrail.service is None and earlier not in TAKEN_OUT
        if texts.is_raw and guardrail.is_for_answers and (searched or PASSED) == PASSED:
            is_known = False
        return strictest_result(result, searched or PASSED) if is_known else UNKNOWN


def is_blocked(traffic: Traffic) -> bool:
    """Whether a guardrail refused the request, or its answer, when it was sent."""
    return traffic.record is not None and traffic.record.exception == GuardrailBlocked.exception


def _counts_of(row: Guardrail) -> GuardrailCounts:
    repairs = row.type == GuardrailType.JSON and row.parameters.get("repair") is True
    return GuardrailCounts(row.pk, row.name, row.type, repairs)


def _verdict(record: RequestRecord, results: Results) -> Verdict:
    was_blocked = record.outcome == Outcome.BLOCKED or BLOCKED in results.before.values()
    if BLOCKED in results.after.values():
        return Verdict.SAME if was_blocked else Verdict.DENIED
    if results.may_be_blocked:
        return Verdict.UNKNOWN
    return Verdict.RELEASED if was_blocked else Verdict.SAME


def _stays_blocked(record: RequestRecord, touched: frozenset[int]) -> bool:
    """Whether a guardrail that the draft does not touch has blocked the request."""
    if record.outcome != Outcome.BLOCKED:
        return False
    blocking = {one for one, result in _recorded_results(record, DIRECTIONS).items() if result == BLOCKED}
    return not blocking or not blocking <= touched


def _recorded_results(record: RequestRecord, directions: Collection[str]) -> Mapping[int, str]:
    """What guardrails did with the request or its answer when it was sent, by id."""
    results: dict[int, str] = {}
    for row in record.guardrails or ():
        if row["direction"] not in directions:
            continue
        results[row["id"]] = strictest_result(results.get(row["id"], PASSED), row["result"])
    return results


def _has_run(record: RequestRecord, guardrail_id: int, directions: Collection[str]) -> bool:
    """Whether a guardrail has searched the request in each of these directions, as far as there was an answer."""
    past = {row["direction"] for row in record.guardrails or () if row["id"] == guardrail_id}
    return past.issuperset(directions)


def _search_texts(requests: Side | None, answers: Side | None, texts: Texts, model: str) -> dict[int, str]:
    """What these guardrails find in what was kept; the answer is searched unless the request is blocked."""
    results = _results_of(requests, texts.request, REQUEST, model)
    if BLOCKED not in results.values() and texts.response is not None:
        for guardrail_id, result in _results_of(answers, texts.response, RESPONSE).items():
            results[guardrail_id] = strictest_result(results.get(guardrail_id, PASSED), result)
    return results


def _results_of(side: Side | None, document: Any, direction: str, model: str = "") -> dict[int, str]:
    if side is None:
        return {}
    search = Search(side, is_of_answer=direction == RESPONSE)
    if direction == REQUEST:
        search.note_model(model)
        search.note_unreadable(document)
    rewrite_texts(document, of_whole_texts(search.visit))
    return {one: tally.result for one, tally in search.tallies.items()}


def _texts(payload: str) -> Texts:
    """The request and the answer, as far as they were kept whole."""
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        return Texts(None, None)
    request, is_whole = logged_object(document.get("request") if isinstance(document, dict) else None)
    if request is None or not is_whole or "model" not in request:
        return Texts(None, None)
    answer = document.get("response")
    response, is_whole = logged_object(answer)
    if response is None:
        return Texts(request, answer, isinstance(answer, str) and answer.startswith(EVENTS))
    if response.keys() == {"bytes", "sha256"}:
        return Texts(request, None)
    return Texts(request, response, not is_whole)


def _guardrail_row(draft: RowDraft, new_id: int) -> Guardrail:
    """The row of a draft, which is not stored. Raises ValidationError with the place of what is wrong."""
    values = {"parameters": {}, "action": default_action(draft.values["type"]), **draft.values}
    try:
        compile_guardrail(values["type"], values["parameters"])
        audience = check_audience(values["applies_to"], {}) if "applies_to" in values else for_everyone()
    except ValidationError as error:
        raise ValidationError(error.message, field=f"{draft.place}.{error.field}") from None
    parameters = {name: value for name, value in values["parameters"].items() if name != SECRET}
    return Guardrail(pk=draft.id or new_id, **{**values, "parameters": parameters, "applies_to": audience})
