"""Combines the verdicts of guardrail services on a request or an answer with the matches of the other guardrails."""

from collections.abc import Sequence
from typing import NamedTuple

from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.book import MONITOR
from gateway_project.work.guardrails.remote.asking import Answer, LateAnswer, ServiceClients
from gateway_project.work.guardrails.remote.services import Question
from gateway_project.work.guardrails.searching import UNAVAILABLE, Search
from gateway_project.work.guardrails.texts import Kind, Path, Visit, of_whole_texts, rewrite_texts

REPLACED = "replaced"  # category


class LateAnswers(NamedTuple):
    """The verdicts for guardrails that only record: the request does not wait for them."""

    search: Search
    texts: Sequence[str]
    answers: Sequence[LateAnswer]

    @property
    def are_there(self) -> bool:
        return all(answer.future.done() for answer in self.answers)

    def note(self) -> None:
        """Wait for them, and add them up."""
        _note_answers(self.search, self.texts, [answer.result() for answer in self.answers])


def judge_document(
    exchange: Exchange, gateway: Gateway, search: Search, direction: str, value: object
) -> dict[str, str]:
    """Ask the services of the guardrails about the texts of a document: note what they say, and what replaces which."""
    texts: dict[str, None] = {}

    def collect(text: str, kind: Kind, path: Path) -> str:
        if kind is not Kind.TOOL:
            texts[text] = None
        return text

    rewrite_texts(value, of_whole_texts(collect))
    return judge_texts(exchange, gateway, search, direction, list(texts))


def judge_texts(
    exchange: Exchange, gateway: Gateway, search: Search, direction: str, texts: list[str]
) -> dict[str, str]:
    """The same for texts."""
    identity = exchange.identity
    assert identity.caller is not None
    if not texts or not search.side.remote:
        return {}
    key_id = None if identity.key is None else identity.key.id
    question = Question(direction, texts, exchange.model, identity.caller.id, key_id, exchange.request_id)
    clients = ServiceClients(gateway.transport, gateway.watcher, gateway.snapshot)
    services = gateway.remote_guardrails
    if monitors := search.side.monitors:
        search.late.append(LateAnswers(search, texts, services.ask_late(clients, monitors, question)))
    return _note_answers(search, texts, services.ask(clients, search.side.deciding, question))


def replacing_visit(replacements: dict[str, str], search: Search) -> Visit:
    """The visit of a search, with replaced texts in the place of the original ones."""
    if not replacements:
        return search.visit

    def visit(text: str, kind: Kind, path: Path) -> str:
        new = replacements.get(text, text)
        if new == text or kind is Kind.TOOL:
            return search.visit(text, kind, path)
        search.visit(text, kind, path)  # all look at the original
        counts = search.counts()
        result = search.visit(new, kind, path)
        search.set_counts(counts)
        return result

    return visit


def _note_answers(search: Search, texts: Sequence[str], answers: Sequence[Answer]) -> dict[str, str]:
    replacements: dict[str, str] = {}
    for guardrail, verdict, seconds in answers:
        search.note_time([guardrail], seconds)
        if verdict.has_failed:
            search.tallies[guardrail.id].has_failed = True
            if guardrail.fails_closed:
                search.note_refusal([guardrail], UNAVAILABLE)
        for category in verdict.categories:
            search.note_refusal([guardrail], category)
        for text, new in zip(texts, verdict.texts or texts, strict=True):
            if new != text:
                search.tallies[guardrail.id].counts[REPLACED] += 1
                if guardrail.action != MONITOR:
                    replacements.setdefault(text, new)
    return replacements
