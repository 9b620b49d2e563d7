"""Who may use SCIM: the holder of GATEWAY_SCIM_TOKEN, which opens nothing else."""

import hmac
from functools import partial

from django.conf import settings
from django.http import HttpRequest

from accounts.guessing.throttle import throttle_guess
from gateway_project.api import audit
from gateway_project.errors import AuthenticationFailed

DIRECTORY = "directory"  # in the audit
# The name under which wrong tokens are counted. It is invisible, so that no user has it.
ACCOUNT = "\x1fscim"
SWITCHED_OFF = "SCIM is switched off: GATEWAY_SCIM_TOKEN is not set."
NEEDS_TOKEN = "SCIM needs GATEWAY_SCIM_TOKEN as bearer token."


def require_token(request: HttpRequest) -> None:
    """Raise AuthenticationFailed for anything but the token, and RateLimited after too many wrong ones.

    The right token is accepted whatever else the address has sent: directories share addresses with strangers, and a
    token of this length cannot be guessed.
    """
    if not settings.GATEWAY_SCIM_TOKEN:
        raise AuthenticationFailed(SWITCHED_OFF)
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise AuthenticationFailed(NEEDS_TOKEN)
    expected = settings.GATEWAY_SCIM_TOKEN.encode()
    if not hmac.compare_digest(token.strip().encode("utf-8", "replace"), expected):
        _refuse(request)


def _refuse(request: HttpRequest) -> None:
    """Count a wrong token like a wrong password."""
    report = partial(_report, request)
    too_many = partial(report, "Too many wrong SCIM tokens from this address. Further ones are refused for a while.")
    report_many = partial(report, "Many wrong SCIM tokens. Further ones are slowed down.")
    with throttle_guess(
        ACCOUNT, request.META.get("REMOTE_ADDR", ""), on_first_refusal=too_many, on_first_delay=report_many
    ):
        report("A request to SCIM had a wrong token.")
        raise AuthenticationFailed(NEEDS_TOKEN)


def _report(request: HttpRequest, message: str) -> None:
    stranger = audit.Actor(None, request.correlation_id, request.META.get("REMOTE_ADDR", ""))  # type: ignore[attr-defined]  # of the middleware
    audit.record(stranger, "login", "scim", message=message, severity="warning")


def actor_of(request: HttpRequest) -> audit.Actor:
    """The directory, as who makes the changes of this request."""
    address = request.META.get("REMOTE_ADDR", "")
    return audit.Actor(None, request.correlation_id, address, operator=DIRECTORY)  # type: ignore[attr-defined]  # of the middleware
