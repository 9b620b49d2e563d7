"""Stage 2: read the request: its body, its model, its operation and the X-Svc- headers."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from time import monotonic
from wsgiref.types import WSGIEnvironment

from gateway_project.api.strict_json import parse_object
from gateway_project.errors import UnsupportedMediaType, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.server.bodies import READY_BYTES, Read, body_timeout, read_body
from gateway_project.server.http1 import has_arrived, is_buffered
from gateway_project.server.request_ids import decode
from gateway_project.work.doors import DIALECTS
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.limits.output_bound import bound_output
from providers.formats import WorkRequest
from providers.formats.dialect import COUNT_TOKENS, Dialect
from providers.formats.json_values import dumped
from rules.aliases.models import Strategy

OPERATION_OF = {"messages": "chat", "prompt": "completion", "input": "embedding"}
OPERATIONS = tuple(OPERATION_OF.values())
# At a door these are never streamed, whatever the body says; on /work the operation is only a guess.
NEVER_STREAMED = ("embedding", COUNT_TOKENS)
STRATEGIES = tuple(Strategy.values)
CACHE_CONTROLS = ("bypass", "refresh", "only")
MODEL_LENGTH = 200
# Fields that the gateway evaluates; some providers ignore the case of names, and would decide differently.
READ_HERE = {"model", "stream"}
TAG = re.compile(r"([A-Za-z0-9_.-]{1,64})=([^\x00-\x1f\x7f,]{0,256})\Z")
MAX_TAGS = 20
FORWARDED_HEADERS = {"anthropic-version": "HTTP_ANTHROPIC_VERSION", "anthropic-beta": "HTTP_ANTHROPIC_BETA"}
HEADER = re.compile(r"[\x20-\x7e]{1,1024}")


def read_request(exchange: Exchange, gateway: Gateway) -> None:
    """Set the request and what its headers ask for. Raises ValidationError, which names what is wrong."""
    headers = exchange.connection.environ
    if headers.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header Content-Type: application/json.")
    if headers.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise UnsupportedMediaType("Send the body uncompressed: Content-Encoding is not supported.")
    raw, endpoint = _body(exchange, gateway), exchange.endpoint
    body = parse_object(raw)
    if endpoint.model and body.get("model") != endpoint.model:
        body["model"] = endpoint.model
        raw = dumped(body)
    for name in gateway.required_fields:
        if body.get(name) is None:
            raise ValidationError(f"The field {name} is missing.", field=name)
    for name in body:
        if name not in READ_HERE and name.casefold() in READ_HERE:
            text = f"The field {name} differs from {name.casefold()} only in upper and lower case."
            raise ValidationError(text, field=name)
    stream = body.get("stream")
    if stream is not None and type(stream) is not bool:
        raise ValidationError("stream must be true or false.", field="stream")
    operation = endpoint.operation or _operation(headers.get("HTTP_X_SVC_OPERATION"), body)
    dialect = endpoint.dialect or DIALECTS[operation]
    if added_bound := _bound_output(exchange, body, operation, dialect):
        raw = dumped(body)
    streams = stream is True and endpoint.operation not in NEVER_STREAMED
    exchange.request = WorkRequest(
        operation,
        _model(body),
        body,
        raw,
        streams,
        dialect=dialect,
        via_door=endpoint.door.in_shape,
        id=exchange.request_id,
        created=int(exchange.started_at),
        added_bound=added_bound,
        headers=_forwarded_headers(headers),
    )
    _read_headers(exchange)


def _bound_output(exchange: Exchange, body: JsonObject, operation: str, dialect: Dialect) -> str:
    """Apply the key's bound of tokens; the name of the parameter that was added for it, or ""."""
    key = exchange.identity.key
    most = None if key is None or key.restrictions is None else key.restrictions.max_tokens
    return bound_output(body, dialect.output_bounds, most) if most and operation not in NEVER_STREAMED else ""


def _body(exchange: Exchange, gateway: Gateway) -> bytes:
    """The body; the client's connection is shut down if it does not send it in time."""
    call, headers, caller = exchange.call, exchange.connection.environ, exchange.identity.caller
    assert caller is not None  # as the stage before has found out

    def reserve(size: int) -> None:
        gateway.body_memory.reserve(size, caller.id)
        exchange.options.body_bytes += size

    def timed(read: Read, size: int) -> bytes:
        if call.client is None or is_buffered(headers["wsgi.input"]):
            return read()
        seconds = body_timeout(size, gateway.client_seconds, gateway.min_body_rate)
        return gateway.read_in_time(call, call.started + seconds - monotonic(), read)

    length = headers.get("CONTENT_LENGTH") or ""
    is_short = length.isdecimal() and int(length) <= READY_BYTES
    waits = not is_short and call.client is not None and not has_arrived(headers["wsgi.input"])
    with gateway.upload_places.place(caller.id) if waits else nullcontext():
        return read_body(headers, gateway.max_body_bytes, reserve, timed)


def _model(body: JsonObject) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        raise ValidationError("model must be a non-empty string: the name of the model to use.", field="model")
    if len(model) > MODEL_LENGTH or not model.isprintable():
        raise ValidationError(f"model must have at most {MODEL_LENGTH} printable characters.", field="model")
    return model


def _operation(header: str | None, body: JsonObject) -> str:
    if header:
        return _one_of("X-Svc-Operation", header, OPERATIONS)
    for name, operation in OPERATION_OF.items():
        if name in body:
            return operation
    return "chat"


def _read_headers(exchange: Exchange) -> None:
    """Set what the headers ask for, and the key's tags."""
    headers = exchange.connection.environ
    for name in sorted(OPTIONS.keys() & headers.keys()):
        if text := headers[name]:
            OPTIONS[name](exchange, text)
    key = exchange.identity.key
    if key is not None and key.restrictions is not None and key.restrictions.tags:
        exchange.options.tags = {**exchange.options.tags, **key.restrictions.tags}


def _set_cache_control(exchange: Exchange, text: str) -> None:
    exchange.options.cache_control = _one_of("X-Svc-Cache", text, CACHE_CONTROLS)


def _set_cache_seconds(exchange: Exchange, text: str) -> None:
    exchange.options.cache_seconds = int(_number("X-Svc-Cache-TTL", text, whole=True))


def _set_timeout(exchange: Exchange, text: str) -> None:
    exchange.call.shorten(_number("X-Svc-Timeout", text, whole=False))


def _set_tags(exchange: Exchange, text: str) -> None:
    exchange.options.tags = _tags(decode(text))


def _set_provider(exchange: Exchange, text: str) -> None:
    exchange.options.provider_name = decode(text)


def _set_fallback(exchange: Exchange, text: str) -> None:
    _one_of("X-Svc-Fallback", text, ("off",))
    exchange.options.may_fall_back = False


def _set_strategy(exchange: Exchange, text: str) -> None:
    exchange.options.strategy = _one_of("X-Svc-Strategy", text, STRATEGIES)


def _set_session(exchange: Exchange, text: str) -> None:
    if not HEADER.fullmatch(text):
        problem = "X-Svc-Session must have at most 1024 printable characters of ASCII."
        raise ValidationError(problem, header="X-Svc-Session")
    exchange.options.session = text


# What a request may ask for, by the name of the header in WSGI's environment.
OPTIONS: dict[str, Callable[[Exchange, str], None]] = {
    "HTTP_X_SVC_CACHE": _set_cache_control,
    "HTTP_X_SVC_CACHE_TTL": _set_cache_seconds,
    "HTTP_X_SVC_TIMEOUT": _set_timeout,
    "HTTP_X_SVC_TAGS": _set_tags,
    "HTTP_X_SVC_PROVIDER": _set_provider,
    "HTTP_X_SVC_FALLBACK": _set_fallback,
    "HTTP_X_SVC_STRATEGY": _set_strategy,
    "HTTP_X_SVC_SESSION": _set_session,
}


def _forwarded_headers(headers: WSGIEnvironment) -> dict[str, str]:
    """The client's headers that a provider may get too; its format decides."""
    selection: dict[str, str] = {}
    for name, wsgi_name in FORWARDED_HEADERS.items():
        if value := headers.get(wsgi_name):
            if not HEADER.fullmatch(value):
                raise ValidationError(f"{name} must have at most 1024 printable characters of ASCII.", header=name)
            selection[name] = value
    return selection


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValidationError(f"{name} must be one of {', '.join(allowed)}.", header=name)
    return value


def _number(name: str, text: str, *, whole: bool) -> float:
    pattern = r"[0-9]{1,9}" if whole else r"[0-9]{1,9}(\.[0-9]{1,9})?"
    if not re.fullmatch(pattern, text, re.ASCII) or (not whole and float(text) <= 0):
        seconds = "whole number of seconds" if whole else "number of seconds above 0"
        raise ValidationError(f"{name} must be a {seconds}.", header=name)
    return float(text)


def _tags(text: str) -> dict[str, str]:
    matches = [TAG.match(part.strip()) for part in text.split(",")]
    if len(matches) > MAX_TAGS or not all(matches):
        raise ValidationError(
            f"X-Svc-Tags must have at most {MAX_TAGS} tags, each name=value, separated by commas. Names have 1 to 64 "
            "characters of A-Z a-z 0-9 . _ -.",
            header="X-Svc-Tags",
        )
    return {match[1]: match[2] for match in matches if match is not None}
