"""Answers on their way to the client: whole ones, and streams that are known as a whole since they were cached."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gateway_project.work.exchange import Exchange, Guarding
from gateway_project.work.gateway import Gateway
from gateway_project.work.guardrails.book import RESPONSE, GuardrailSnapshot
from gateway_project.work.guardrails.detectors.redaction import Placeholders, json_escape
from gateway_project.work.guardrails.remote.judging import judge_document, judge_texts, replacing_visit
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.streams import StreamGuard
from gateway_project.work.guardrails.texts import Kind, Path, Visit, of_whole_texts, rewrite_texts, without_logprobs
from gateway_project.work.streaming.stream import EVENT_STREAM, Stream
from providers.formats.json_values import dump_value, read_json


def guard_whole_answer(exchange: Exchange, gateway: Gateway, guarding: Guarding) -> None:
    """Set the answer for the client and for the log. Raises GuardrailBlocked.

    The answer itself stays as it is, for the cache: others who get it have guardrails of their own.
    """
    answer, hit = exchange.answer, exchange.cache.hit
    if answer is None or not _is_watched(guarding):
        return
    if guarding.changes_answers:
        guarding.logged = b""  # whatever happens, the log does not have what is searched for
    search = _search_of_answers(guarding)
    if hit is not None and hit.chunk_sizes is not None:
        _guard_stored_stream(exchange, gateway, guarding, hit.chunk_sizes)
    elif answer.content_type.startswith(EVENT_STREAM):  # a whole answer, written as events for a client that streams
        _guard_stored_stream(exchange, gateway, guarding, [len(answer.body)])
        if guarding.chunks is not None:
            guarding.answer, guarding.chunks = replace(answer, body=b"".join(guarding.chunks)), None
    else:
        value = read_json(answer.body)
        visit = None if search is None else _visit_of(exchange, gateway, search, answer.body, value)
        safe, output = _guarded_body(answer.body, value, visit, guarding.placeholders)
        if guarding.changes_answers:
            guarding.logged, guarding.answer = safe, replace(answer, body=output)
    if search is not None:
        search.raise_if_blocked("answer")


def _visit_of(exchange: Exchange, gateway: Gateway, search: Search, body: bytes, value: object) -> Visit:
    if not search.side.remote:
        return search.visit
    texts = body.decode(errors="replace") if value is None else value
    return replacing_visit(judge_document(exchange, gateway, search, RESPONSE, texts), search)


def begin_guarding(exchange: Exchange, gateway: Gateway, stream: Stream) -> None:
    """Let guardrails watch a stream that begins, if any apply to its answer."""
    guarding = exchange.guarding
    if guarding is not None and guarding.stream is None and _is_watched(guarding):
        stream.is_guarded = True
        request = exchange.request
        assert request is not None
        read = stream.reader.generated_text
        guarding.stream = _stream_guard(exchange, gateway, guarding, stream.content_type, read)


def _is_watched(guarding: Guarding) -> bool:
    return guarding.placeholders is not None or guarding.applicable.answers is not None


def note_repair(guarding: Guarding, guardrails: Sequence[GuardrailSnapshot], *, is_valid: bool) -> None:
    """Note whether the second answer, which these guardrails have asked for, is valid."""
    search = _search_of_answers(guarding)
    assert search is not None
    for guardrail in guardrails:
        search.tallies[guardrail.id].repaired = is_valid


def _search_of_answers(guarding: Guarding) -> Search | None:
    """The search of the request's answers; None if only placeholders are put back."""
    if guarding.answer_search is None and guarding.applicable.answers is not None:
        guarding.answer_search = Search(guarding.applicable.answers)
    return guarding.answer_search


def _stream_guard(
    exchange: Exchange, gateway: Gateway, guarding: Guarding, content_type: str, read: Callable[[bytes], str]
) -> StreamGuard:
    search = _search_of_answers(guarding)
    ask = partial(_judge_stream, exchange, gateway, search) if search is not None and search.side.remote else None
    return StreamGuard(
        search,
        guarding.placeholders,
        content_type,
        read,
        is_changed=guarding.changes_answers,
        ask=ask,
        decides=search is not None and bool(search.side.deciding),
    )


def _judge_stream(exchange: Exchange, gateway: Gateway, search: Search, text: str) -> None:
    """Ask services about a whole stream. A replacement blocks the stream. Raises GuardrailBlocked."""
    if judge_texts(exchange, gateway, search, RESPONSE, [text] if text else []):
        search.refuse_redaction()
    search.raise_if_blocked("answer")


def _guard_stored_stream(exchange: Exchange, gateway: Gateway, guarding: Guarding, chunk_sizes: list[int]) -> None:
    """Search a cached stream before its first byte goes out: if it is blocked, the client gets a plain error."""
    answer = exchange.answer
    assert answer is not None
    guarding.stream = guard = _stream_guard(exchange, gateway, guarding, answer.content_type, _text_reader(exchange))
    chunks: list[bytes] = []
    start = 0
    for size in chunk_sizes:
        chunks.append(guard.feed(answer.body[start : start + size]))
        start += size
    chunks.append(guard.end())
    if guarding.changes_answers:
        guarding.chunks = [chunk for chunk in chunks if chunk]
        guarding.logged = guard.logged


def _text_reader(exchange: Exchange) -> Callable[[bytes], str]:
    """What reads the text of a cached stream."""
    request, target = exchange.request, exchange.target
    assert request is not None
    assert target is not None
    assert target.provider.format is not None
    return target.provider.format.reader(request).generated_text


def _guarded_body(
    body: bytes, value: object, visit: Visit | None, placeholders: Placeholders | None
) -> tuple[bytes, bytes]:
    """A whole answer without redacted parts: for the log, and for the client, who gets the originals of placeholders.

    `value` is the answer as it is parsed; None if it is no JSON.
    """
    if value is None:
        text = body.decode(errors="replace")
        safe = text if visit is None else visit(text, Kind.MIXED, None)
        output = safe if placeholders is None else placeholders.restore(safe)
        return (body if safe == text else safe.encode()), (body if output == text else output.encode())
    safe_value = value if visit is None else rewrite_texts(value, of_whole_texts(visit))
    safe_body = body if safe_value is value else dump_value(without_logprobs(safe_value))
    if placeholders is None:
        return safe_body, safe_body
    output_value = rewrite_texts(safe_value, partial(_restore_text, placeholders))
    return safe_body, safe_body if output_value is safe_value else dump_value(without_logprobs(output_value))


def _restore_text(placeholders: Placeholders, text: str, kind: Kind, path: Path) -> str:
    return placeholders.restore(text, json_escape if kind is Kind.CALL_JSON else str)
