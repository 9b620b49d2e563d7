"""Turns exceptions in views into the error documents of the management API."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from django.core import exceptions as django
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404
from django_redis.exceptions import ConnectionInterrupted
from rest_framework import exceptions as rest
from rest_framework.response import Response

from gateway_project import errors
from gateway_project.api.documents import Plain
from gateway_project.api.names import camel
from gateway_project.database.saving import WRITE_RACE, is_read_only, is_write_race
from gateway_project.errors.problem import Problem
from gateway_project.json_types import JsonObject

log = logging.getLogger("gateway.management")

# The pool raises the same error if it is exhausted and if the database is away.
NO_DATABASE = "The database does not answer: it is unreachable, or all connections to it are in use."

ATTRIBUTES = "/data/attributes"  # the pointer to the attributes of a request

READ_ONLY = "The database is read-only at the moment. Nothing was written."


def handle(exception: Exception, context: JsonObject) -> Response:
    """The error response; an exception without a GatewayError is logged, and its response is InternalError."""
    error = as_gateway_error(exception)
    if error is None:
        log.exception("Request %s failed.", context["request"].correlation_id)
        error = errors.InternalError()
    names = _attribute_names(context["view"]) if error is exception else {}  # a serializer already uses wire names
    return Response(Plain(document(error, names)), status=error.code, headers=error.headers)


def document(error: errors.GatewayError, names: Mapping[str, str] = MappingProxyType({})) -> JsonObject:
    """The error's document, with wire names; `names` are those of attributes by the names that services use."""
    problems = [problem.with_names(names) for problem in error.problems]
    problems = [replace(problem, field=_wire_path(problem.field)) for problem in problems]
    return {
        **error.body(),
        "message": errors.sentence_of(problems),
        "errors": error.error_objects(problems, ATTRIBUTES),
    }


def _attribute_names(view: object) -> dict[str, str]:
    """The names of the operation's attributes by the names that its service uses, where these differ."""
    kind = getattr(view, f"{getattr(view, 'action', '')}_attributes", None)
    fields = kind().fields if kind else {}
    return {field.source: name for name, field in fields.items() if field.source not in fields}


def _wire_path(field: str) -> str:
    """The path of an attribute in camelCase; a pointer stays as it is."""
    return field if field.startswith("/") else ".".join(map(camel, field.split("."))) if field else ""


def as_gateway_error(exception: Exception) -> errors.GatewayError | None:
    """The GatewayError of an exception of the gateway, of DRF or of Django; None for all others."""
    if isinstance(exception, errors.GatewayError):
        return exception
    if isinstance(exception, rest.ValidationError):
        return errors.ValidationError.from_problems(list(_problems(exception.detail)))
    if is_write_race(exception):
        return errors.Conflict(WRITE_RACE)
    if is_read_only(exception):
        return errors.ServiceUnavailable(READ_ONLY)
    for kinds, error, message in TRANSLATIONS:
        if isinstance(exception, kinds):
            return error(message)
    return None


def _problems(detail: object, path: str = "") -> Iterator[Problem]:
    """Each problem of a serializer, with the path of a nested field."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            inner_path = path if name == "non_field_errors" else f"{path}.{name}".removeprefix(".")
            yield from _problems(inner, inner_path)
    elif isinstance(detail, list):
        for inner in detail:
            yield from _problems(inner, path)
    else:
        yield Problem(str(detail), path)


TRANSLATIONS = (
    (rest.ParseError, errors.ValidationError, "The body cannot be read."),
    (rest.UnsupportedMediaType, errors.UnsupportedMediaType, ""),
    ((rest.NotAuthenticated, rest.AuthenticationFailed), errors.AuthenticationFailed, ""),
    ((rest.PermissionDenied, django.PermissionDenied), errors.PermissionDenied, ""),
    ((rest.NotFound, Http404, django.ObjectDoesNotExist), errors.NotFound, ""),
    (rest.MethodNotAllowed, errors.MethodNotAllowed, ""),
    (django.SuspiciousOperation, errors.ValidationError, "The request is malformed."),
    # A number or a text that is too large for its column, and that no field has refused.
    (DataError, errors.ValidationError, "A value is out of range."),
    ((OperationalError, InterfaceError), errors.ServiceUnavailable, NO_DATABASE),
    (ConnectionInterrupted, errors.ServiceUnavailable, "The cache does not answer."),
)
