"""How much of a request's content is kept: as the gateway's setting says, unless its key keeps less."""

from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from gateway_project.work.exchange import Exchange

# Read once: each request asks several times, and Django's settings answer with function calls.
KIND: str = settings.GATEWAY_LOG_PAYLOAD
MAX_BYTES: int = settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES
LEVELS = ("none", "redacted", "full")  # of GATEWAY_LOG_PAYLOAD, the least content first


def content_kind(exchange: "Exchange") -> str:
    """full, redacted or none."""
    key = exchange.identity.key
    if key is None or key.restrictions is None or key.restrictions.content_logging not in LEVELS:
        return KIND
    return min(KIND, key.restrictions.content_logging.value, key=LEVELS.index)
