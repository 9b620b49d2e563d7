"""How much of a request's content is kept: as the gateway's setting says, unless its key keeps less."""

from typing import TYPE_CHECKING

from django.conf import settings

from gateway_project.errors import GatewayError, UpstreamError

if TYPE_CHECKING:
    from gateway_project.work.exchange import Exchange

# Read once: each request asks several times, and Django's settings answer with function calls.
KIND: str = settings.GATEWAY_LOG_PAYLOAD
MAX_BYTES: int = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES
NOT_KEPT = "Its message is not kept."
LEVELS = ("none", "redacted", "full")  # of GATEWAY_LOG_PAYLOAD, the least content first


def content_kind(exchange: "Exchange") -> str:
    """full, redacted or none."""
    key = exchange.identity.key
    if key is None or key.restrictions is None or key.restrictions.content_logging not in LEVELS:
        return KIND
    return min(KIND, key.restrictions.content_logging.value, key=LEVELS.index)


def loggable_message(error: GatewayError, exchange: "Exchange") -> str:
    """The error's message, without the provider's words, which may quote the request, where content is not kept."""
    if isinstance(error, UpstreamError) and error.own_message and content_kind(exchange) != "full":
        return f"{error.own_message} {NOT_KEPT}"
    return error.message
