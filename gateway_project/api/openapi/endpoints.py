"""Declares the operations of views outside the management API, for the OpenAPI document and for 405 responses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from rest_framework.serializers import Serializer

from gateway_project.api.problems import document
from gateway_project.errors import GatewayError, MethodNotAllowed
from gateway_project.server.http_delivery import error_response

Schema = Mapping[str, object]
View = Callable[..., HttpResponseBase]

TOKEN, KEY, COOKIE, REFRESH = "accessToken", "apiKey", "userCookie", "refreshCookie"  # all credentials


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: a schema for each media type, and the headers (name to schema) besides X-Svc-Request-ID."""

    description: str
    content: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of a view: `answers` by status, the `errors` it can end with, the `credentials` it accepts.

    `who` may use it is a value of the table in access.py; the view checks that itself.

    `failures` by status replace the errors if the view has its own error documents.
    """

    summary: str
    answers: Mapping[str, Answer]
    tag: str
    who: str
    description: str = ""
    body: Schema | None = None
    parameters: tuple[Schema, ...] = ()
    errors: tuple[type[GatewayError], ...] = ()
    credentials: tuple[str, ...] = ()
    failures: Mapping[str, Answer] = field(default_factory=dict)
    components: tuple[type[Serializer], ...] = ()  # that its schemas refer to, by the names of their classes


def endpoint(**operations: Operation) -> Callable[[View], View]:
    """Declares a view's operations by method, as in @endpoint(get=…); every other method is answered with 405.

    A GatewayError that the view raises becomes its error response.
    """
    allowed = [method.upper() for method in operations] + (["HEAD"] if "get" in operations else [])

    def decorate(view: View) -> View:
        @csrf_exempt  # these views use no cookies
        @wraps(view)
        def answer(request: HttpRequest, **kwargs: str) -> HttpResponseBase:
            if request.method not in allowed:
                return error_response(refuse_method(allowed)).to_django()
            try:
                return view(request, **kwargs)
            except GatewayError as error:
                return error_response(error, document=document(error)).to_django()

        return declare_operations(answer, operations)

    return decorate


def declare_operations(view: View, operations: Mapping[str, Operation]) -> View:
    """The view, with its operations where routes.py looks for them."""
    view.operations = operations  # type: ignore[attr-defined]  # functions declare no attributes
    return view


def refuse_method(allowed: list[str]) -> MethodNotAllowed:
    """The error for any other method."""
    names = ", ".join(allowed)
    return MethodNotAllowed(f"This path supports {names}.", headers={"Allow": names})
