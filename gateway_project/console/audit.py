"""Writes what is done in the console to the log, with the same fields as changes by the API."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.http import HttpRequest

from gateway_project.api import audit
from gateway_project.api.access import Caller

LOGIN = "login"  # the key in the console's session of the login that it belongs to


def caller(request: HttpRequest) -> Caller:
    """The admin at the console, as the Caller that services and the log take."""
    return Caller(user=request.user, is_admin=True, session=request.session.get(LOGIN))


def record(
    request: HttpRequest, operation: str, resource: str, row_id: Any, *, attributes: Iterable[str] = (), **fields: Any
) -> None:
    """Write one change made in the console to the log; `fields` are others of a Change, without secrets."""
    defaults = {
        "caller": caller(request),
        "correlation_id": request.correlation_id,
        "address": request.META.get("REMOTE_ADDR", ""),
        "operation": operation,
        "resource": resource,
        "id": row_id,
        "attributes": tuple(sorted(attributes)),
    }
    audit.record(audit.Change(**defaults | fields))


def record_session_event(request: HttpRequest, message: str, *, user: Any = None, severity: str = "info") -> None:
    """Write to the log what happened to a user's sessions; `user` is None where it is unknown."""
    owner = Caller(user=user) if user is not None else None
    record(request, "console", "auth", None, caller=owner, message=message, severity=severity)


def session_event_recorder(request: HttpRequest) -> Any:
    """record_session_event() of this request, as the callback that services of sessions take."""
    return partial(record_session_event, request)
