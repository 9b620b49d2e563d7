"""How errors outside the views become responses: unknown paths, malformed requests, crashes."""

from django.http import HttpRequest, HttpResponseBase

from gateway_project.delivery import of_error
from gateway_project.errors import InternalError, NotFound, PermissionDenied, ValidationError


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return of_error(ValidationError("The request is malformed.")).to_django()


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return of_error(PermissionDenied()).to_django()


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return of_error(NotFound(f"There is nothing at {request.path}.")).to_django()


def server_error(request: HttpRequest) -> HttpResponseBase:
    return of_error(InternalError()).to_django()


def forged(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    text = "This form is too old, or does not come from a page of the gateway: load the page again."
    return of_error(PermissionDenied(text)).to_django()
