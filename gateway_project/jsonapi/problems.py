"""Turns exceptions in views into {code, exception, message}, the error body of the management API."""

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
from gateway_project.saving import WRITE_RACE, is_read_only, is_write_race

log = logging.getLogger("gateway.management")

# An exhausted pool cannot be told from a database that is away: both give no connection.
NO_DATABASE = "The database does not answer: it is unreachable, or all connections to it are in use."

READ_ONLY = "The database is read-only at the moment. Nothing was written."


def handle(exception: Exception, context: dict[str, Any]) -> Response:
    """The error response; an exception that has no GatewayError is logged and answered as InternalError."""
    error = as_gateway_error(exception)
    if error is None:
        log.exception("Request %s failed.", context["request"].correlation_id)
        error = errors.InternalError()
    return Response(Plain(error.body()), status=error.code, headers=error.headers)


def as_gateway_error(exception: Exception) -> errors.GatewayError | None:
    """The GatewayError of an exception of the gateway, of DRF or of Django; None for all others."""
    if isinstance(exception, errors.GatewayError):
        return exception
    if isinstance(exception, rest.ValidationError):
        return errors.ValidationError(" ".join(_messages(exception.detail)))
    if is_write_race(exception):
        return errors.Conflict(WRITE_RACE)
    if is_read_only(exception):
        return errors.ServiceUnavailable(READ_ONLY)
    for kinds, error, message in TRANSLATIONS:
        if isinstance(exception, kinds):
            return error(message)
    return None


def _messages(detail: Any, path: str = "") -> Iterator[str]:
    """`userName: This field is required.` for each problem, with the path of a nested field."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            inner_path = path if name == "non_field_errors" else f"{path}.{camel(str(name))}".removeprefix(".")
            yield from _messages(inner, inner_path)
    elif isinstance(detail, list):
        for inner in detail:
            yield from _messages(inner, path)
    else:
        yield f"{path}: {detail}" if path else str(detail)


TRANSLATIONS = (
    (rest.ParseError, errors.ValidationError, "The body cannot be read."),
    (rest.UnsupportedMediaType, errors.UnsupportedMediaType, ""),
    ((rest.NotAuthenticated, rest.AuthenticationFailed), errors.AuthenticationFailed, ""),
    ((rest.PermissionDenied, django.PermissionDenied), errors.PermissionDenied, ""),
    ((rest.NotFound, Http404, django.ObjectDoesNotExist), errors.NotFound, ""),
    (rest.MethodNotAllowed, errors.MethodNotAllowed, ""),
    (django.SuspiciousOperation, errors.ValidationError, "The request is malformed."),
    # A number or a text beyond its column, which no field has refused before the database did.
    (DataError, errors.ValidationError, "A value is out of range."),
    ((OperationalError, InterfaceError), errors.ServiceUnavailable, NO_DATABASE),
    (ConnectionInterrupted, errors.ServiceUnavailable, "The cache does not answer."),
)
