"""The request as the provider would get it, without its secrets."""

from time import time

import orjson

from gateway_project.json_types import JsonObject
from gateway_project.work.explain.walk import Walk
from gateway_project.work.log.secret_masking import mask_secrets
from gateway_project.work.snapshot.records import ProviderSnapshot
from providers.transport.transport import ProviderRequest

MASK = "***"
SCHEMES = ("Bearer ", "Basic ")


def outgoing_of(walk: Walk) -> JsonObject | None:
    """URL, headers and body with masks in place of credentials; None if no provider would be asked."""
    request, target = walk.request, walk.exchange.attempts.target
    if request is None or target is None:
        return None
    provider = target.provider
    return {
        "url": provider.redact(request.url),
        "headers": _masked_headers(request, provider),
        "body": _masked_body(request.body, provider),
    }


def _masked_headers(request: ProviderRequest, provider: ProviderSnapshot) -> dict[str, str]:
    """Every header that authenticates is masked whole, whatever its value."""
    names = provider.authentication(request.url, request.body, time()).keys()
    return {name: _mask(value) if name in names else provider.redact(value) for name, value in request.headers.items()}


def _mask(value: str) -> str:
    scheme = next((scheme for scheme in SCHEMES if value.startswith(scheme)), "")
    return f"{scheme}{MASK}"


def _masked_body(body: bytes, provider: ProviderSnapshot) -> object:
    """The body as JSON, or as text if it is not JSON."""
    masked = mask_secrets(provider.redact_body(body, len(body)), len(body))
    try:
        return orjson.loads(masked)
    except orjson.JSONDecodeError:
        return masked.decode(errors="replace")
