"""Guardrails of a draft, which search what was kept of recorded requests and answers."""

import json
from enum import Enum
from json import dumps
from typing import Any

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.book import CallerFacts, GuardrailBook, GuardrailSnapshot, Side, audience_of
from gateway_project.work.guardrails.detectors.compilation import compile_detector
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.texts import of_whole_texts, rewrite
from gateway_project.work.snapshot.records import Caller
from gateway_project.work.what_if.drafts import GUARDRAILS, Draft, RowDraft
from gateway_project.work.what_if.traffic import Traffic
from rules.guardrails.audience import check_audience
from rules.guardrails.models import Action, Direction, FailMode, for_everyone
from telemetry.models import Outcome


class Verdict(Enum):
    """What guardrails of a draft say of a request."""

    PASSED = "passed"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"  # its text was not kept


class GuardrailTrial:
    """The guardrails of a draft. Those in force are taken as they were: what they blocked stays blocked."""

    def __init__(self, draft: Draft) -> None:
        rows = enumerate(draft.of(GUARDRAILS), start=1)
        self._book = GuardrailBook([_snapshot(number, row) for number, row in rows if row.values.get("enabled", True)])

    def judge(self, traffic: Traffic, caller: Caller) -> Verdict:
        """Whether they would have blocked the request, or its answer."""
        recorded = traffic.recorded
        assert recorded is not None, "texts are searched one request after the other"
        facts = CallerFacts(caller.id, caller.group_ids, traffic.key_id, recorded.rule_id, recorded.alias)
        applicable = self._book.applicable(facts)
        if applicable is None or recorded.outcome in (Outcome.BLOCKED, Outcome.DENIED):
            return Verdict.PASSED
        request, response = _texts(recorded.payload)
        if request is None:
            return Verdict.UNKNOWN
        if applicable.requests is not None and _blocks(applicable.requests, request, traffic.model):
            return Verdict.BLOCKED
        if applicable.answers is None or response is None:
            return Verdict.PASSED
        return Verdict.BLOCKED if _blocks(applicable.answers, response, is_of_answer=True) else Verdict.PASSED


def _blocks(side: Side, document: Any, model: str = "", *, is_of_answer: bool = False) -> bool:
    search = Search(side, is_of_answer=is_of_answer)
    if model:
        search.note_model(model)
    rewrite(document, of_whole_texts(search.visit))
    return search.blocking is not None


def _texts(payload: str) -> tuple[JsonObject | None, Any]:
    """The request and the answer, as far as they were kept whole."""
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        return None, None
    request = document.get("request") if isinstance(document, dict) else None
    if not isinstance(request, dict) or "model" not in request:
        return None, None
    response = document.get("response")
    return request, None if isinstance(response, dict) and response.keys() == {"bytes", "sha256"} else response


def _snapshot(number: int, row: RowDraft) -> GuardrailSnapshot:
    values = row.values
    kind, parameters = values["type"], values.get("parameters") or {}
    try:
        detector = compile_detector(kind, parameters)
        audience = audience_of(check_audience(values["applies_to"], {}) if "applies_to" in values else for_everyone())
    except ValidationError as error:
        raise ValidationError(error.message, field=f"{row.place}.{error.field}") from None
    direction = values.get("direction", Direction.BOTH)
    return GuardrailSnapshot(
        id=number,
        name=values["name"],
        position=values.get("position", 100),
        action=values.get("action", Action.BLOCK),
        source=dumps([kind, parameters], sort_keys=True),
        detector=detector,
        audience=audience,
        is_for_requests=direction != Direction.RESPONSE,
        is_for_answers=direction != Direction.REQUEST,
        fails_closed=values.get("fail_mode") == FailMode.CLOSED,
    )
