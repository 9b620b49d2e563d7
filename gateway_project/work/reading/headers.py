"""What the headers of a request ask for, and those of them that its provider may get."""

import re
from collections.abc import Callable
from wsgiref.types import WSGIEnvironment

from gateway_project.errors import ValidationError
from gateway_project.server.request_ids import decode_text
from gateway_project.work.exchange import Exchange
from rules.aliases.models import Strategy

STRATEGIES = tuple(Strategy.values)
CACHE_CONTROLS = ("bypass", "refresh", "only")
TAG = re.compile(r"([A-Za-z0-9_.-]{1,64})=([^\x00-\x1f\x7f,]{0,256})\Z")
MAX_TAGS = 20
FORWARDED_HEADERS = {"anthropic-version": "HTTP_ANTHROPIC_VERSION", "anthropic-beta": "HTTP_ANTHROPIC_BETA"}
HEADER = re.compile(r"[\x20-\x7e]{1,1024}")


def read_headers(exchange: Exchange) -> None:
    """Set what the headers ask for, and the key's tags."""
    headers = exchange.connection.environ
    for name in sorted(OPTION_NAMES.intersection(headers)):
        if text := headers[name]:
            OPTIONS[name](exchange, text)
    key = exchange.identity.key
    if key is not None and key.restrictions is not None and key.restrictions.tags:
        exchange.options.tags = {**exchange.options.tags, **key.restrictions.tags}


def _set_cache_control(exchange: Exchange, text: str) -> None:
    exchange.options.cache_control = require_one_of("X-Svc-Cache", text, CACHE_CONTROLS)


def _set_cache_seconds(exchange: Exchange, text: str) -> None:
    exchange.options.cache_seconds = int(_seconds("X-Svc-Cache-TTL", text, is_integer=True))


def _set_timeout(exchange: Exchange, text: str) -> None:
    exchange.call.shorten(_seconds("X-Svc-Timeout", text, is_integer=False))


def _set_tags(exchange: Exchange, text: str) -> None:
    exchange.options.tags = _tags(decode_text(text))


def _set_provider(exchange: Exchange, text: str) -> None:
    exchange.options.provider_name = decode_text(text)


def _set_fallback(exchange: Exchange, text: str) -> None:
    require_one_of("X-Svc-Fallback", text, ("off",))
    exchange.options.may_fall_back = False


def _set_strategy(exchange: Exchange, text: str) -> None:
    exchange.options.strategy = require_one_of("X-Svc-Strategy", text, STRATEGIES)


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
OPTION_NAMES = frozenset(OPTIONS)


def forwarded_headers(headers: WSGIEnvironment) -> dict[str, str]:
    """The client's headers that a provider may get too; its format decides."""
    selection: dict[str, str] = {}
    for name, wsgi_name in FORWARDED_HEADERS.items():
        if wsgi_name in headers and (value := headers[wsgi_name]):
            if not HEADER.fullmatch(value):
                raise ValidationError(f"{name} must have at most 1024 printable characters of ASCII.", header=name)
            selection[name] = value
    return selection


def require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """The value of this header, which has to be one of these. Raises ValidationError."""
    if value not in allowed:
        raise ValidationError(f"{name} must be one of {', '.join(allowed)}.", header=name)
    return value


def _seconds(name: str, text: str, *, is_integer: bool) -> float:
    pattern = r"[0-9]{1,9}" if is_integer else r"[0-9]{1,9}(\.[0-9]{1,9})?"
    if not re.fullmatch(pattern, text, re.ASCII) or (not is_integer and float(text) <= 0):
        seconds = "whole number of seconds" if is_integer else "number of seconds above 0"
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
