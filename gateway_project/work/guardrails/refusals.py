"""Answers that a guardrail refuses, and for whose sake it lets the model be asked once more."""

from collections.abc import Sequence
from typing import NamedTuple

from gateway_project.work.exchange import Exchange
from gateway_project.work.guardrails.book import GuardrailSnapshot, Side
from gateway_project.work.guardrails.texts import Kind, Path, of_whole_texts, rewrite_texts
from providers.formats import ClientResponse, WorkRequest
from providers.formats.json_values import read_json
from providers.formats.neutral.reply import FinishReason


class Refusal(NamedTuple):
    """An answer that guardrails refuse: its text, and what is wrong with it."""

    guardrails: Sequence[GuardrailSnapshot]
    text: str
    problem: str


def may_repair(request: WorkRequest) -> bool:
    """Whether its shape lets a message follow the answer. Streams are not repaired, nor what a provider has stored."""
    member = request.dialect.conversation
    return not request.stream and isinstance(request.body.get(member), str | list) and not request.stateful_parameter


def needs_new_answer(exchange: Exchange, cached: ClientResponse) -> bool:
    """Whether the model is asked in spite of a cached answer, since guardrails would have had it repaired."""
    guarding, request = exchange.guarding, exchange.request
    side = None if guarding is None else guarding.applicable.answers
    if request is None or side is None or not side.repairing or not may_repair(request):
        return False
    return refusal_of(cached, side) is not None


def is_valid_answer(answer: ClientResponse, side: Side) -> bool:
    """Whether an answer has a text, calls no tool, and is refused by no guardrail that repairs."""
    texts: list[str] = []

    def visit(text: str, kind: Kind, path: Path) -> str:
        if kind is Kind.ANSWER and text.strip():
            texts.append(text)
        return text

    rewrite_texts(read_json(answer.body), visit)
    return bool(texts) and answer.finish_reason != FinishReason.TOOL and refusal_of(answer, side) is None


def refusal_of(answer: ClientResponse, side: Side) -> Refusal | None:
    """The first text of an answer that a guardrail refuses, and lets repair."""
    refusals: list[Refusal] = []

    def visit(text: str, kind: Kind, path: Path) -> str:
        for detector, guardrails in side.repairing:
            if kind is Kind.ANSWER and text.strip() and not refusals and (problem := detector.problem(text)):
                refusals.append(Refusal(guardrails, text, problem))
        return text

    if answer.finish_reason != FinishReason.TOOL:
        rewrite_texts(read_json(answer.body), of_whole_texts(visit))
    return refusals[0] if refusals else None
