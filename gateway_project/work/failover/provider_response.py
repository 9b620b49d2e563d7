"""The end of an attempt: check and read the provider's answer, or begin its stream."""

import re
from time import monotonic

from django.conf import settings

from gateway_project.errors import ProviderError, ProviderRejected
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import Target
from gateway_project.work.streaming.stream import Stream
from providers.formats import StreamReader
from providers.formats.base import EVENT_STREAM
from providers.formats.dropped import dropped_header
from providers.formats.neutral.reply import FinishReason
from providers.transport.provider_response import ProviderResponse
from rules.aliases.models import FallbackCause

OPENING_BYTES = 64 * 1024  # of events without a text; a client does not wait for the end of more
MEDIA_TYPE = re.compile(
    r"[a-z]{1,32}/[a-z0-9.+-]{1,64}(; ?charset=[a-z0-9-]{1,32}(?=\s*(;|\Z)))?", re.IGNORECASE | re.ASCII
)


def read_response(exchange: Exchange, gateway: Gateway) -> None:
    """Set the answer, or the stream once it has something for the client. Raises ProviderError if it is neither."""
    attempts, target, request = exchange.attempts, exchange.target, exchange.request
    response, attempts.response = attempts.response, None
    assert response is not None
    assert target is not None
    assert request is not None
    target_format = target.provider.format
    assert target_format is not None, "a provider without a format is no candidate"
    if request.stream and target_format.is_stream(content_type := response.headers.get("content-type", "")):
        client_type = EVENT_STREAM if target_format.translates(request) else _clean(content_type)
        reader = target_format.reader(request)
        attempts.stream = _begin(exchange, response, reader, client_type)
        return
    body = response.read()
    exchange.call.note_last_token()
    _refuse_credential(target, body)
    attempts.answer = answer = target_format.answer_from_response(request, response.headers, body)
    if answer.body is not body:  # a translation may reveal what JSON's escapes have hidden
        _refuse_credential(target, answer.body)
    if answer.dropped:
        attempts.dropped = dropped_header(answer.dropped, after=attempts.dropped)
    gateway.watcher.remove(exchange.call)


def refuse_filtered(exchange: Exchange) -> None:
    """Raise ProviderRejected for an answer that the provider's content filter stopped, if another target may serve."""
    if exchange.decision.alias is None or not _leaves_filtered(exchange):  # only aliases have this cause
        return
    attempts = exchange.attempts
    source = attempts.answer if attempts.stream is None else attempts.stream.reader
    if source is None or source.finish_reason != FinishReason.FILTER:
        return
    error = ProviderRejected("The provider's content filter stopped the answer.", reason="content_filter")
    error.usage, error.may_have_worked = source.usage, True
    if attempts.stream is not None:
        attempts.stream.provider_response.close()
    attempts.answer = attempts.stream = None
    raise error


def _refuse_credential(target: Target, body: bytes) -> None:
    if target.provider.leaks_credential(body):
        raise ProviderError("The provider's answer contains the gateway's credential.")


def _clean(content_type: str) -> str:
    """The provider's media type with its charset; other parameters are not trusted."""
    match = MEDIA_TYPE.match(content_type)
    return match[0] if match else EVENT_STREAM


def _waits_for_text(exchange: Exchange) -> bool:
    """Whether events that only open an answer do not begin it: a filter may stop it, or another target be faster."""
    return _is_racing(exchange) or _leaves_filtered(exchange)


def _leaves_filtered(exchange: Exchange) -> bool:
    """Whether another target is asked for what a filter stopped; a strict limit has room for one answer."""
    may_fall_back = FallbackCause.CONTENT_FILTER in exchange.fallback_on and len(exchange.remaining) > 1
    return may_fall_back and not exchange.limits.is_strict


def _is_racing(exchange: Exchange) -> bool:
    """Whether another target may still answer first."""
    race = exchange.attempts.race
    return race is not None and race.is_open


def _has_no_text(reader: StreamReader, events: bytes) -> bool:
    return len(events) < OPENING_BYTES and not reader.finish_reason and not reader.has_text(events)


def _begin(exchange: Exchange, response: ProviderResponse, reader: StreamReader, content_type: str) -> Stream:
    """Read up to the first bytes for the client: until then an error can still be sent with its own status.

    Where it has to wait for a text, those are the first that the model has generated, or the end of the answer.
    """
    pieces = response.pieces()
    heartbeat_due = monotonic() + settings.GATEWAY_HEARTBEAT
    first = b""
    try:
        for piece in pieces:
            first += reader.feed(piece) if piece else b""
            if reader.error is not None:
                raise reader.error
            # While the provider is silent, or sends nothing but heartbeats, the client needs a heartbeat.
            is_due = (not piece or exchange.call.waiting_since >= heartbeat_due) and not _is_racing(exchange)
            if is_due or reader.done or (first and not (_waits_for_text(exchange) and _has_no_text(reader, first))):
                return Stream(response, pieces, reader, first, content_type)
        first += reader.end(response.is_complete)
        if reader.done and reader.error is None:
            return Stream(response, pieces, reader, first, content_type)
        raise reader.error or ProviderError("The provider ended its stream before sending anything.")
    except BaseException:
        response.close()
        raise
