"""The content that the entry of a request keeps: request and answer as JSON, cut, without credentials."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from gateway_project.errors import LimitError
from gateway_project.json_types import JsonObject
from gateway_project.work.exchange import Exchange
from gateway_project.work.guardrails.reports import logged_answer
from gateway_project.work.log.content import MAX_BYTES, content_kind
from gateway_project.work.log.secret_masking import LOOK_AHEAD_BYTES, has_secrets, mask_secrets
from gateway_project.work.snapshot.records import ProviderSnapshot

if TYPE_CHECKING:
    from _hashlib import HASH


def logged_payload(exchange: Exchange) -> str:
    """Request and response as JSON, as far as they are kept."""
    kind = content_kind(exchange)
    if kind == "none" or exchange.request is None or isinstance(exchange.error, LimitError):
        return ""  # a client that is over a limit must not fill the disk instead
    request, whole_answer = exchange.request.raw, exchange.answer
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
    max_bytes, is_streamed = MAX_BYTES // 2, exchange.is_streamed
    # A stream of JSON lines looks like an object but is not one.
    show = _json if not is_streamed else _show_string
    parts = exchange.cache.logged_parts if exchange.guarding is None else None
    if parts is None:
        target = exchange.target
        parts = masked_parts(request, answer, max_bytes, target and target.provider, is_stream=is_streamed)
    first, second = parts
    shown_request = _json(first[:max_bytes], len(request), max_bytes)
    return f'{{"request": {shown_request}, "response": {show(second[:max_bytes], size, max_bytes)}}}'


def listed_answer(
    exchange: Exchange, body: bytes, provider: ProviderSnapshot, *, is_stream: bool
) -> tuple[str, Sequence[bytes] | None]:
    """A cached answer as lists show it, and what is kept of request and answer: "" and None where nothing may be."""
    # Others who get the answer have guardrails of their own: the cache keeps it as it is, and so no list shows it.
    is_guarded = exchange.guarding is not None and exchange.guarding.changes_answers
    if is_guarded or content_kind(exchange) != "full":
        return "", None
    assert exchange.request is not None
    parts = masked_parts(exchange.request.raw, body, MAX_BYTES, provider, is_stream=is_stream)
    return _text(parts[1][:MAX_BYTES], len(body), MAX_BYTES), parts


def _fingerprint(size: int, digest: "HASH") -> JsonObject:
    return {"bytes": size, "sha256": digest.hexdigest()}


def masked_parts(
    request: bytes, answer: bytes, max_bytes: int, provider: ProviderSnapshot | None, *, is_stream: bool
) -> Sequence[bytes]:
    """At least the first `max_bytes` of request and answer, without credentials; the caller cuts them."""
    end = max_bytes + LOOK_AHEAD_BYTES
    if not is_stream:  # one search in both, which seldom finds anything: each hands the interpreter to another thread
        search_end = end if provider is None else end + provider.longest_secret_bytes
        bodies = request[:search_end], answer[:search_end]
        together = b"\n".join(bodies)  # no pattern tells a line break from the end of a text
        if not has_secrets(together) and (provider is None or not provider.leaks_credential(together)):
            return bodies
    if provider is not None:
        request, answer = provider.redact_body(request, end), provider.redact_body(answer, end)
    return mask_secrets(request, max_bytes), mask_secrets(answer, max_bytes, is_stream=is_stream)


def _json(body: bytes, size: int, max_bytes: int) -> str:
    """What is kept of a body of this size as a JSON value: unchanged if it is a JSON object, otherwise as a string."""
    if size <= max_bytes and body.startswith(b"{") and body.rstrip().endswith(b"}") and body.isascii():
        return body.decode()
    return _show_string(body, size, max_bytes)


def _show_string(body: bytes, size: int, max_bytes: int) -> str:
    return orjson.dumps(_text(body, size, max_bytes)).decode()


def _text(body: bytes, size: int, max_bytes: int) -> str:
    text = body.decode("utf-8", "replace")
    return text if size <= max_bytes else f"{text}… ({size} bytes)"
