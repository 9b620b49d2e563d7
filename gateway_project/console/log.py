"""What the log is told of the console: who did what, as of the API."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.http import HttpRequest

from gateway_project.access import Caller
from gateway_project.jsonapi import audit

LOGIN = "login"  # where the console's session names the login that it belongs to


def caller(request: HttpRequest) -> Caller:
    """The admin at the console, as services and the log know callers."""
    return Caller(user=request.user, is_admin=True, session=request.session.get(LOGIN))


def record(
    request: HttpRequest, operation: str, resource: str, row_id: Any, *, attributes: Iterable[str] = (), **told: Any
) -> None:
    """Tell the log of one change made in the console; `before` and `after` without secrets."""
    known = {
        "caller": caller(request),
        "correlation_id": request.correlation_id,
        "address": request.META.get("REMOTE_ADDR", ""),
        "operation": operation,
        "resource": resource,
        "id": row_id,
        "attributes": tuple(sorted(attributes)),
    }
    audit.record(audit.Change(**known | told))


def tell(request: HttpRequest, message: str, *, user: Any = None, severity: str = "info") -> None:
    """Tell the log what happened to a user's sessions; `user` None: nobody knows whose they would be."""
    told = Caller(user=user) if user is not None else None
    record(request, "console", "auth", None, caller=told, message=message, severity=severity)


def teller(request: HttpRequest) -> Any:
    """tell() of this request, for services that tell by themselves."""
    return partial(tell, request)
