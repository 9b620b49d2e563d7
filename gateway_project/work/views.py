"""POST /work and the doors for SDKs: parse, run, deliver."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from gateway_project.api.openapi.endpoints import Operation, View, declare, endpoint, refusal
from gateway_project.errors import GatewayError, NotFound
from gateway_project.server.client_response import Delivery
from gateway_project.server.request_ids import decode, request_id
from gateway_project.work.doors import MODELS, door_of, entrance_of, model_list
from gateway_project.work.doors.base import Door, Entrance
from gateway_project.work.exchange import Exchange, Incoming
from gateway_project.work.openapi import WORK
from gateway_project.work.pipeline import serve
from gateway_project.work.runtime import Gateway, gateway
from providers.transport.calls import Call


@endpoint(post=WORK)
def work(request: HttpRequest) -> HttpResponseBase:
    """Answer a work request with the provider's own body."""
    return answer(request.META).to_django()


def door(**operations: Operation) -> View:
    """A view of a door's path, answered in the shape of its client; these are its methods."""

    @csrf_exempt  # no cookie is looked at here
    def view(request: HttpRequest, **kwargs: str) -> HttpResponseBase:
        return answer(request.META).to_django()

    return declare(view, operations)


def answer(environ: dict[str, Any]) -> Delivery:
    """The response to a work request, or to any request at a door; `environ` is WSGI's."""
    path = decode(environ["PATH_INFO"]).removesuffix("/")
    if entrance := entrance_of(path):
        return _work(environ, entrance)
    found = door_of(environ)
    if not (models := MODELS.fullmatch(path)):
        return _refused(NotFound(f"There is nothing at {decode(environ['PATH_INFO'])}."), environ, found)
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _refused(refusal(["GET", "HEAD"]), environ, found)
    return model_list.deliver_models(_exchange(environ, Entrance(found), gateway()), models["model"] or "")


def _work(environ: dict[str, Any], entrance: Entrance) -> Delivery:
    if environ["REQUEST_METHOD"] != "POST":
        return _refused(refusal(["POST"]), environ, entrance.door)
    the_gateway = gateway()
    return serve(_exchange(environ, entrance, the_gateway), the_gateway)


def _exchange(environ: dict[str, Any], entrance: Entrance, gateway: Gateway) -> Exchange:
    client = environ.get("gunicorn.socket")
    incoming = Incoming(environ, client, environ.get("REMOTE_ADDR", ""))
    call = Call(client=client, total_seconds=gateway.total_seconds)
    return Exchange(incoming, request_id(environ), entrance, call=call)


def _refused(error: GatewayError, environ: dict[str, Any], door: Door) -> Delivery:
    """The response to a request that does not reach the pipeline."""
    delivery = door.refusal(error, wanted := request_id(environ))
    delivery.headers += [(name, wanted) for name in ("X-Svc-Request-ID", door.request_id_header) if name]
    return delivery
