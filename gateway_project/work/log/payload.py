"""The content that the entry of a request keeps: request and answer as JSON, cut, without credentials."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson
from django.conf import settings

from gateway_project.errors import LimitError
from gateway_project.json_types import JsonObject
from gateway_project.work.exchange import Exchange
from gateway_project.work.guardrails.reports import logged_answer
from gateway_project.work.log.content import content_kind
from gateway_project.work.log.secret_masking import LOOK_AHEAD_BYTES, mask_secrets, mask_secrets_in_each
from gateway_project.work.snapshot.records import ProviderSnapshot

if TYPE_CHECKING:
    from _hashlib import HASH


def logged_payload(exchange: Exchange) -> str:
    """Request and response as JSON, as far as they are kept."""
    kind = content_kind(exchange)
    if kind == "none" or exchange.request is None or isinstance(exchange.error, LimitError):
        return ""  # a client that is over a limit must not fill the disk instead
    whole_answer, target, is_streamed = exchange.answer, exchange.target, exchange.is_streamed
    request = exchange.request.raw
    answer = whole_answer.body if whole_answer else b"".join(exchange.delivery.chunks)
    is_live = exchange.attempts.stream is not None or exchange.cache.subscription is not None
    size = exchange.delivery.size if is_live else len(answer)
    if exchange.guarding is not None and (guarded := logged_answer(exchange.guarding)) is not None:
        answer, size = guarded
    if kind == "redacted":
        is_whole = exchange.guarding is not None and len(answer) == size
        digest = hashlib.sha256(answer) if is_whole else exchange.delivery.digest or hashlib.sha256(answer)
        payload = {
            "request": _fingerprint(len(request), hashlib.sha256(request)),
            "response": _fingerprint(size, digest),
        }
        return orjson.dumps(payload).decode()
    max_bytes, provider = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES // 2, target and target.provider
    # A stream of JSON lines looks like an object but is not one.
    show = _json if not is_streamed else _string
    parts = exchange.cache.logged_parts if exchange.guarding is None else None
    if parts is None:
        parts = _stored_parts((request, answer), max_bytes, provider, is_stream=is_streamed)
    first, second = parts[0][:max_bytes], parts[1][:max_bytes]
    return f'{{"request": {_json(first, len(request), max_bytes)}, "response": {show(second, size, max_bytes)}}}'


def listed_answer(
    exchange: Exchange, body: bytes, provider: ProviderSnapshot, *, is_stream: bool
) -> tuple[str, Sequence[bytes] | None]:
    """A cached answer as lists show it, and what is kept of request and answer: "" and None where nothing may be."""
    # Others who get the answer have guardrails of their own: the cache keeps it as it is, and so no list shows it.
    is_guarded = exchange.guarding is not None and exchange.guarding.changes_answers
    if is_guarded or content_kind(exchange) != "full":
        return "", None
    assert exchange.request is not None
    max_bytes = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES
    parts = _stored_parts((exchange.request.raw, body), max_bytes, provider, is_stream=is_stream)
    return _text(parts[1], len(body), max_bytes), parts


def _fingerprint(size: int, digest: "HASH") -> JsonObject:
    return {"bytes": size, "sha256": digest.hexdigest()}


def _stored_parts(
    bodies: Sequence[bytes], max_bytes: int, provider: ProviderSnapshot | None, *, is_stream: bool
) -> Sequence[bytes]:
    """The parts of request and answer that are kept, without credentials; they are masked before they are cut."""
    if provider is not None:
        bodies = [provider.redact_body(body, max_bytes + LOOK_AHEAD_BYTES) for body in bodies]
    if is_stream:
        request, answer = bodies
        bodies = mask_secrets(request, max_bytes), mask_secrets(answer, max_bytes, is_stream=True)
    else:
        bodies = mask_secrets_in_each(bodies, max_bytes)
    return [body[:max_bytes] for body in bodies]


def _json(body: bytes, size: int, max_bytes: int) -> str:
    """What is kept of a body of this size as a JSON value: unchanged if it is a JSON object, otherwise as a string."""
    if size <= max_bytes and body[:1] == b"{" and body.rstrip()[-1:] == b"}" and body.isascii():
        return body.decode()
    return _string(body, size, max_bytes)


def _string(body: bytes, size: int, max_bytes: int) -> str:
    return orjson.dumps(_text(body, size, max_bytes)).decode()


def _text(body: bytes, size: int, max_bytes: int) -> str:
    text = body.decode("utf-8", "replace")
    return text if size <= max_bytes else f"{text}… ({size} bytes)"
