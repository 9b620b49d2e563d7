"""Whatever goes wrong in a view becomes {code, exception, message}: the one error body of the management API."""

import logging
from collections.abc import Iterator
from typing import Any

from django.core import exceptions as django
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404
from django_redis.exceptions import ConnectionInterrupted
from rest_framework import exceptions as rest
from rest_framework.response import Response

from gateway_project import errors
from gateway_project.jsonapi.documents import Plain
from gateway_project.jsonapi.names import camel
from gateway_project.saving import CROSSED, is_crossed, is_read_only

log = logging.getLogger("gateway.management")

# A pool that is used up looks like a database that is away: nobody gets a connection.
NO_DATABASE = "The database does not answer: it is away, or all connections to it are in use."

READ_ONLY = "The database can only be read for now: nothing was written."


def handle(exception: Exception, context: dict[str, Any]) -> Response:
    """The response that tells what went wrong; what nobody foresaw is logged and told as InternalError."""
    error = as_gateway_error(exception)
    if error is None:
        log.exception("Request %s failed.", context["request"].correlation_id)
        error = errors.InternalError()
    return Response(Plain(error.body()), status=error.code, headers=error.headers)


def as_gateway_error(exception: Exception) -> errors.GatewayError | None:
    """Our error for an exception of ours, of the framework or of Django; None for all others."""
    if isinstance(exception, errors.GatewayError):
        return exception
    if isinstance(exception, rest.ValidationError):
        return errors.ValidationError(" ".join(_told(exception.detail)))
    if is_crossed(exception):
        return errors.Conflict(CROSSED)
    if is_read_only(exception):
        return errors.ServiceUnavailable(READ_ONLY)
    for kinds, error, message in MEANINGS:
        if isinstance(exception, kinds):
            return error(message)
    return None


def _told(detail: Any, path: str = "") -> Iterator[str]:
    """`userName: This field is required.` for each problem, wherever in the attributes it is."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            whole = path if name == "non_field_errors" else f"{path}.{camel(str(name))}".removeprefix(".")
            yield from _told(inner, whole)
    elif isinstance(detail, list):
        for inner in detail:
            yield from _told(inner, path)
    else:
        yield f"{path}: {detail}" if path else str(detail)


MEANINGS = (
    (rest.ParseError, errors.ValidationError, "The body cannot be read."),
    (rest.UnsupportedMediaType, errors.UnsupportedMediaType, ""),
    ((rest.NotAuthenticated, rest.AuthenticationFailed), errors.AuthenticationFailed, ""),
    ((rest.PermissionDenied, django.PermissionDenied), errors.PermissionDenied, ""),
    ((rest.NotFound, Http404, django.ObjectDoesNotExist), errors.NotFound, ""),
    (rest.MethodNotAllowed, errors.MethodNotAllowed, ""),
    (django.SuspiciousOperation, errors.ValidationError, "The request is malformed."),
    # What a field should have refused and the database did: a number or a text beyond its column.
    (DataError, errors.ValidationError, "A value is out of range."),
    ((OperationalError, InterfaceError), errors.ServiceUnavailable, NO_DATABASE),
    (ConnectionInterrupted, errors.ServiceUnavailable, "The cache does not answer."),
)
