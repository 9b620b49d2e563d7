"""Writes what is done in the console to the log, with the same fields as changes by the API."""

from functools import partial
from typing import Protocol, Unpack

from django.http import HttpRequest

from gateway_project.api import audit
from gateway_project.api.access import Caller

LOGIN = "login"  # the key in the console's session of the login that it belongs to


class SessionEventRecorder(Protocol):
    """Writes an event of a user's sessions to the log; services of sessions take one as a callback."""

    def __call__(
        self, message: str, *, user: object = None, severity: str = "info", is_refusal: bool = False
    ) -> None: ...


def caller(request: HttpRequest) -> Caller:
    """The admin at the console, as the Caller that services and the log take."""
    return Caller(user=request.user, is_admin=True, session=request.session.get(LOGIN))


def record_change(
    request: HttpRequest, operation: str, resource: str, row_id: int | None, **details: Unpack[audit.ChangeDetails]
) -> None:
    """Write one change made in the console to the log; `details` are without secrets."""
    audit.record(actor(request), operation, resource, row_id, **details)


def actor(request: HttpRequest) -> audit.Actor:
    """The admin at the console, as who makes the changes of this request."""
    return _actor(request, caller(request))


def record_session_event(
    request: HttpRequest,
    message: str,
    *,
    user: object = None,
    severity: str = "info",
    operation: str = "login",
    is_refusal: bool = False,
) -> None:
    """Write to the log what happened to a user's sessions; `user` is None if the user is unknown."""
    owner = Caller(user=user) if user is not None else None
    details: audit.ChangeDetails = {"message": message, "severity": severity, "is_refusal": is_refusal}
    audit.record(_actor(request, owner), operation, "auth", **details)


def session_event_recorder(request: HttpRequest) -> SessionEventRecorder:
    """record_session_event() of this request."""
    return partial(record_session_event, request)


def _actor(request: HttpRequest, caller: Caller | None) -> audit.Actor:
    return audit.Actor(caller, getattr(request, "correlation_id", ""), request.META.get("REMOTE_ADDR", ""))
